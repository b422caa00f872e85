#include "sched/service.h"

#include "base/atomic.h"
#include "os/futex.h"
#include "os/lock.h"
#include "os/thread.h"
#include "sched/report.h"

namespace magpie::rt {
namespace {

constinit os::lock g_lock{os::lock_rank::service};
int g_users = 0;  // under the lock
// Under the lock. Not destroyed at the end of the process: the default runtime never ends.
os::thread& g_thread = *new os::thread;
atomic<int> g_threads{0};

os::futex_word g_word{0};  // changes when there is something to do
atomic<bool> g_ends{false};
atomic<bool> g_dump_wanted{false};
atomic<dump_target> g_target{};  // 64 bits: no lock in it
static_assert(atomic<dump_target>::is_always_lock_free);

struct {
  atomic<void (*)(void*)> job{nullptr};
  void* argument = nullptr;
  atomic<std::uint32_t> asked{0};
  os::futex_word done{0};  // so many
} g_question;

void poke() {
  g_word.fetch_add(1, release);  // pairs with the acquire in service_main()
  os::futex_wake(&g_word, 1);
}

void service_main(void*) {
  for (;;) {
    const std::uint32_t seen = g_word.load(acquire);  // pairs with poke()
    if (g_ends.load(acquire)) return;                 // pairs with runtime_leaves_service()
    // relaxed: only one of them takes it. acquire: pairs with ask_service().
    if (g_dump_wanted.exchange(false, relaxed)) dump_on_request(g_target.load(relaxed));
    if (auto* const job = g_question.job.exchange(nullptr, acquire)) {
      job(g_question.argument);
      g_question.done.fetch_add(1, release);  // pairs with ask_service()
      os::futex_wake(&g_question.done, 1);
    }
    os::futex_wait(g_word, seen);
  }
}

}  // namespace

void runtime_uses_service() {
  constexpr std::size_t k_stack = 256 * 1024;
  const os::lock_guard hold(g_lock);
  if (g_users++ != 0) return;
  g_ends.store(false, relaxed);  // relaxed: the thread starts later
  auto started =
      os::thread::start(service_main, nullptr, {.name = "magpie-service", .stack_size = k_stack});
  if (!started) return;  // done without: it is only for looking
  g_thread = std::move(*started);
  g_threads.store(1, relaxed);  // relaxed: a count
}

void runtime_leaves_service() {
  const os::lock_guard hold(g_lock);
  if (--g_users != 0 || !g_thread.joinable()) return;
  g_ends.store(true, release);  // pairs with the acquire in service_main()
  poke();
  g_thread.join();
  g_threads.store(0, relaxed);  // relaxed: a count
}

int service_threads() { return g_threads.load(relaxed); }  // relaxed: a count

void request_dump(dump_target target) {
  g_target.store(target, relaxed);     // as below; of two requests at a time the last one counts
  g_dump_wanted.store(true, relaxed);  // relaxed: poke() publishes it
  poke();
}

bool ask_service(void (*job)(void*), void* argument, os::nanos patience) {
  if (service_threads() == 0) return false;
  const std::uint32_t done = g_question.asked.fetch_add(1, relaxed);  // relaxed: a number
  g_question.argument = argument;
  g_question.job.store(job, release);  // pairs with the exchange in service_main()
  poke();
  const os::nanos end = os::now() + patience;
  for (;;) {
    const std::uint32_t so_far = g_question.done.load(acquire);  // pairs with service_main()
    if (so_far > done) return true;
    if (os::now() > end) return false;
    os::futex_wait(g_question.done, so_far, end);
  }
}

}  // namespace magpie::rt
