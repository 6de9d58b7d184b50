/* lr_schedule.h — learning rate of a step: a function of the step alone, with the same bits on every machine.
 *
 *   constant     rate
 *   step         rate · factor^⌊t / every⌋
 *   cosine       end + (rate − end) · (1 + cos(π·p)) / 2
 *   polynomial   end + (rate − end) · (1 − p)^power; power 1 is a straight line
 *
 * t counts the steps after the warm-up, from 0; p = t / (steps − warmup), at most 1. In the first `warmup` steps, the
 * warm-up, the rate is rate · (step + 1) / warmup. All in fp64, rounded to fp32 at the end; powers that are whole
 * numbers by squaring (portable_math.h), others as exp(power · log(1 − p)). */
#pragma once
#include <stdint.h>

#include "miniray/status.h"

typedef enum lr_schedule_kind {
    LR_SCHEDULE_CONSTANT,
    LR_SCHEDULE_STEP,
    LR_SCHEDULE_COSINE,
    LR_SCHEDULE_POLYNOMIAL
} lr_schedule_kind;

typedef struct lr_schedule {
    lr_schedule_kind kind;
    double rate;       /* above 0 */
    uint64_t warmup;   /* steps; 0: none */
    uint64_t every;    /* step: above 0 */
    double factor;     /* step: above 0, at most 1 */
    uint64_t steps;    /* cosine, polynomial: more than `warmup` */
    double end, power; /* cosine, polynomial: 0 … rate; power above 0, at most 100 */
} lr_schedule;

MR_MUST mr_status lr_schedule_check(const lr_schedule *schedule);   /* MR_INVALID; the error names the field */
float lr_schedule_rate(const lr_schedule *schedule, uint64_t step); /* steps count from 0 */
