/* portable_math.c — see portable_math.h. Each series is long enough that the first omitted term is below half an
 * ulp. */
#include "base/portable_math.h"

#include <math.h>
#include <string.h>

#include "base/assert.h"

static const double LN2_HIGH = 0x1.62e42fefa38p-1, LN2_LOW = 0x1.ef35793c7673p-45; /* LN2_HIGH times n is exact */
static const double PI = 0x1.921fb54442d18p1;

static double power_of_two(int64_t exponent) { /* −1022 … 1023 */
    uint64_t bits = (uint64_t)(exponent + 1023) << 52;
    double value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

/* x = m·2^n with m in [√½, √2); log m = 2·artanh(z), z = (m − 1)/(m + 1), |z| < 0.172. */
double math_log(double x) {
    uint64_t bits;
    memcpy(&bits, &x, sizeof bits);
    MR_ASSERT(bits >> 52 > 0 && bits >> 52 < 0x7ff);
    int64_t n = (int64_t)(bits >> 52) - 1023;
    double m = x * power_of_two(n == 1023 ? -1022 : -n);
    if (n == 1023) m *= 0.5;
    if (m >= 0x1.6a09e667f3bcdp0) {
        m *= 0.5;
        n++;
    }
    double z = (m - 1) / (m + 1), square = z * z, sum = 0;
    for (int k = 23; k >= 3; k -= 2) sum = (sum + 1 / (double)k) * square;
    return (double)n * LN2_HIGH + (2 * z + (2 * z * sum + (double)n * LN2_LOW));
}

/* x = n·ln 2 + r with |r| ≤ ½ ln 2. */
double math_exp(double x) {
    MR_ASSERT(x >= -700 && x <= 700);
    double n = floor(x * 0x1.71547652b82fep0 + 0.5);
    double r = (x - n * LN2_HIGH) - n * LN2_LOW, sum = 1;
    for (int k = 14; k >= 1; k--) sum = 1 + r / (double)k * sum;
    return sum * power_of_two((int64_t)n);
}

/* The series of the cosine (first = 0) or the sine, for an angle up to π/4. */
static double series(double angle, int first) {
    double square = angle * angle, sum = 1;
    for (int k = first + 16; k > first; k -= 2) sum = 1 - square / (double)(k * (k - 1)) * sum;
    return first == 0 ? sum : angle * sum;
}

double math_cos_pi(double x) {
    MR_ASSERT(x >= 0 && x <= 1);
    if (x > 0.5) return -math_cos_pi(1 - x);
    return x <= 0.25 ? series(PI * x, 0) : series(PI * (0.5 - x), 1);
}

double math_power(double base, uint64_t exponent) {
    double result = 1;
    for (; exponent != 0; exponent >>= 1, base *= base)
        if ((exponent & 1) != 0) result *= base;
    return result;
}
