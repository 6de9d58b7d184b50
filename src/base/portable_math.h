/* portable_math.h — exp, log, cos and other functions with bit-identical results on every machine.
 *
 * The C library's own are within an ulp or two of the truth, and differ in that ulp from one library, and one machine,
 * to another. These use additions, multiplications, divisions and square roots only, which IEEE 754 fixes to the last
 * bit, in an order that is written down. They are right to a few units in the last place, not faster, and for numbers
 * as they come up in trainings: each function names its range. */
#pragma once
#include <stdint.h>

double math_log(double x);    /* natural; x is normal, finite and above 0 */
double math_exp(double x);    /* |x| ≤ 700 */
double math_cos_pi(double x); /* cos(π·x), 0 ≤ x ≤ 1 */

/* base^exponent by squaring, from the exponent's lowest bit to its highest; 0^0 = 1. Off by at most exponent · 2^-52 of
 * the result. */
double math_power(double base, uint64_t exponent);
