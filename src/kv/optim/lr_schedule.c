/* lr_schedule.c — see lr_schedule.h. */
#include "kv/optim/lr_schedule.h"

#include <math.h>

#include "base/error.h"
#include "base/portable_math.h"

mr_status lr_schedule_check(const lr_schedule *schedule) {
    if (!(schedule->rate > 0) || !isfinite((float)schedule->rate))
        return error_set(MR_INVALID, "learning rate %g: it must be positive and finite", schedule->rate);
    switch (schedule->kind) {
    case LR_SCHEDULE_CONSTANT: return MR_OK;
    case LR_SCHEDULE_STEP:
        if (schedule->every > 0 && schedule->factor > 0 && schedule->factor <= 1) return MR_OK;
        return error_set(MR_INVALID, "factor %g every %llu steps: expected above 0 and at most 1, and 1 step or more",
                         schedule->factor, (unsigned long long)schedule->every);
    case LR_SCHEDULE_COSINE:
    case LR_SCHEDULE_POLYNOMIAL:
        if (schedule->steps <= schedule->warmup)
            return error_set(MR_INVALID, "%llu steps with %llu warm-up steps: the steps must be more than the warm-up",
                             (unsigned long long)schedule->steps, (unsigned long long)schedule->warmup);
        if (!(schedule->end >= 0 && schedule->end <= schedule->rate))
            return error_set(MR_INVALID, "learning rate from %g to %g: it must fall, and not below 0", schedule->rate,
                             schedule->end);
        if (schedule->kind == LR_SCHEDULE_COSINE || (schedule->power > 0 && schedule->power <= 100)) return MR_OK;
        return error_set(MR_INVALID, "power %g: expected above 0 and at most 100", schedule->power);
    }
    return error_set(MR_INVALID, "unknown schedule %d", (int)schedule->kind);
}

static double fall(double left, double power) { /* left^power */
    if (floor(power) == power) return math_power(left, (uint64_t)power);
    return left < 0x1p-1000 ? 0 : math_exp(power * math_log(left) < -700 ? -700 : power * math_log(left));
}

float lr_schedule_rate(const lr_schedule *schedule, uint64_t step) {
    double rate = schedule->rate, end = schedule->end;
    if (step < schedule->warmup) return (float)(rate * ((double)step + 1) / (double)schedule->warmup);
    uint64_t t = step - schedule->warmup, length = schedule->steps - schedule->warmup;
    double p = t < length ? (double)t / (double)length : 1;
    switch (schedule->kind) {
    case LR_SCHEDULE_CONSTANT: break;
    case LR_SCHEDULE_STEP: rate *= math_power(schedule->factor, t / schedule->every); break;
    case LR_SCHEDULE_COSINE: rate = end + (rate - end) * (1 + math_cos_pi(p)) / 2; break;
    case LR_SCHEDULE_POLYNOMIAL: rate = end + (rate - end) * fall(1 - p, schedule->power); break;
    }
    return (float)rate;
}
