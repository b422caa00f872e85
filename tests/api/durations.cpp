// Every call that takes a duration takes any std::chrono duration, also one that does not fit into
// nanoseconds and one that counts in fractions. Checked while compiling; never run.
#include <magpie/magpie.h>
#include <magpie/testing.h>

namespace {

using namespace magpie;

template <class Any>
[[maybe_unused]] void waits(Any d, const context& ctx) {
  this_goroutine::sleep_for(d);
  (void)async([] {}).wait_for(d);
  const channel<int> c;
  int value = 0;
  (void)c.send_for(value, d);
  (void)c.receive_for(value, d);
  (void)select(on_timeout(d, [] {}));
  mutex m;
  (void)m.try_lock_for(d);
  semaphore s(1);
  (void)s.try_acquire_for(d);
  event e;
  (void)e.wait_for(d);
  timer t(d);
  t.reset(d);
  ticker k(d);
  k.reset(d);
  (void)after(d);
  (void)after_func(d, [] {});
  (void)with_timeout(ctx, d);
}

template <class Any>
[[maybe_unused]] void others(Any d, const net::address& to, std::error_code& ec) {
  (void)net::tcp_stream::connect("host:80", d);
  (void)net::tcp_stream::connect("host:80", d, ec);
  (void)net::tcp_stream::connect(to, d);
  (void)net::tcp_stream::connect(to, d, ec);
  (void)net::unix_stream::connect("/x", d);
  (void)net::unix_stream::connect("/x", d, ec);
  (void)net::unix_stream::connect(to, d);
  (void)net::unix_stream::connect(to, d, ec);
  const trace::flight_recorder first(d), second = {d, 1 << 20};
  (void)testing::leak_check().leaks(d);
}

[[maybe_unused]] constexpr auto k_waits = &waits<std::chrono::duration<double>>;
[[maybe_unused]] constexpr auto k_others = &others<std::chrono::duration<double>>;
[[maybe_unused]] constexpr auto k_waits_in_hours = &waits<std::chrono::hours>;
[[maybe_unused]] constexpr auto k_others_in_hours = &others<std::chrono::hours>;
[[maybe_unused]] constexpr auto k_waits_in_nanoseconds = &waits<duration>;
[[maybe_unused]] constexpr auto k_others_in_nanoseconds = &others<duration>;

}  // namespace
