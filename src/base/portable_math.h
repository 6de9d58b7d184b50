/* portable_math.h — exp, log, cos and other functions with bit-identical results on every machine.
 *
 * The C library's functions are accurate to an ulp or two and differ in the last bits between libraries and machines.
 * These functions use only additions, multiplications, divisions and square roots, which IEEE 754 defines to the last
 * bit, in a fixed order. They are accurate to a few units in the last place and not faster. Each function states its
 * range. */
#pragma once
#include <stdint.h>

double math_log(double x);    /* natural; x is normal, finite and above 0 */
double math_exp(double x);    /* |x| ≤ 700 */
double math_cos_pi(double x); /* cos(π·x), 0 ≤ x ≤ 1 */

/* base^exponent by squaring, from the exponent's lowest bit to its highest; 0^0 = 1. The relative error is at most
 * exponent · 2^-52. */
double math_power(double base, uint64_t exponent);
