// The promises of <magpie/time.h>, checked while compiling.
#include <magpie/time.h>

#include <cstdint>
#include <limits>

namespace {

using namespace std::chrono_literals;
using magpie::duration;
using magpie::time_point;
using magpie::detail::deadline_after;
using magpie::detail::to_duration;

constexpr double k_infinity = std::numeric_limits<double>::infinity();
constexpr double k_nan = std::numeric_limits<double>::quiet_NaN();
using seconds_double = std::chrono::duration<double>;
using thirds = std::chrono::duration<std::int64_t, std::ratio<1, 3>>;
using picoseconds = std::chrono::duration<std::int64_t, std::pico>;
using unsigned_nanoseconds = std::chrono::duration<std::uint64_t, std::nano>;

static_assert(magpie::clock::is_steady);
static_assert(magpie::no_timeout == duration::max());
static_assert(magpie::never.time_since_epoch() == duration::max());

static_assert(to_duration(3ns) == 3ns);
static_assert(to_duration(2h) == 2h);
static_assert(to_duration(-5ms) == -5ms);
static_assert(to_duration(thirds(2)) == 666'666'666ns);
static_assert(to_duration(picoseconds(1999)) == 1ns);
static_assert(to_duration(seconds_double(0.5)) == 500ms);
static_assert(to_duration(seconds_double(-0.5)) == -500ms);

// What does not fit saturates, in both directions and for every kind of count.
static_assert(to_duration(std::chrono::hours::max()) == duration::max());
static_assert(to_duration(std::chrono::hours::min()) == duration::min());
static_assert(to_duration(std::chrono::seconds(9'223'372'036)) == 9'223'372'036s);
static_assert(to_duration(std::chrono::seconds(9'223'372'037)) == duration::max());
static_assert(to_duration(std::chrono::years(293)) == duration::max());
static_assert(to_duration(unsigned_nanoseconds::max()) == duration::max());
static_assert(to_duration(duration::max()) == duration::max());
static_assert(to_duration(duration::min()) == duration::min());
static_assert(to_duration(seconds_double(1e10)) == duration::max());
static_assert(to_duration(seconds_double(k_infinity)) == duration::max());
static_assert(to_duration(seconds_double(-k_infinity)) == duration::min());
static_assert(to_duration(seconds_double(k_nan)) == duration::min());

constexpr time_point k_now{1000s};
static_assert(deadline_after(k_now, 1s) == k_now + 1s);
static_assert(deadline_after(k_now, 0s) == k_now);
static_assert(deadline_after(k_now, duration::min()) == k_now);
static_assert(deadline_after(k_now, magpie::no_timeout) == magpie::never);
static_assert(deadline_after(k_now, duration::max() - 1000s) == magpie::never);
static_assert(deadline_after(k_now, duration::max() - 1001s) < magpie::never);
static_assert(deadline_after(time_point{}, duration::max()) == magpie::never);
// Some clocks start below zero. "For ever" does not come earlier because of that.
static_assert(deadline_after(time_point{-10s}, magpie::no_timeout) == magpie::never);

}  // namespace
