"""Past use that fades with a half-life, in whole numbers, so that every machine counts the same.

With use u and rate r, after t: u' = s + (u - s) x 2^(-t/h), where s = r x h / ln 2 is what a rate that never changes
settles at. Pure arithmetic.
"""

_STEPS = 64
# 2^(-k/64) in 2^30ths: a table of integers, since libraries differ in the last bit of powers.
_SHIFT = 30
_TABLE: tuple[int, ...] = tuple(round(2.0 ** (_SHIFT - step / _STEPS)) for step in range(_STEPS))
_LN2_PPM = 693_147


def settled(rate: int, half_life_us: int) -> int:
    """Give what a steady rate of use settles at."""
    return rate * half_life_us * 1_000_000 // _LN2_PPM


def faded(use: int, rate: int, passed_us: int, half_life_us: int) -> int:
    """Give the use after some time at a steady rate, in rate x microseconds."""
    steps = passed_us * _STEPS // half_life_us
    rest_us = passed_us - steps * half_life_us // _STEPS
    if steps >= _STEPS * 60:
        return settled(rate, half_life_us)
    limit = settled(rate, half_life_us)
    gap = (use - limit) * _TABLE[steps % _STEPS] >> (_SHIFT + steps // _STEPS)
    # Between two entries of the table the curve is a straight line.
    following = gap * _TABLE[1] >> _SHIFT
    return limit + gap - (gap - following) * rest_us * _STEPS // half_life_us


def average(use: int, half_life_us: int) -> int:
    """Give the mean rate that a faded use stands for."""
    return use * _LN2_PPM // (half_life_us * 1_000_000)
