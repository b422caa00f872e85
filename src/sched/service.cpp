#include "sched/service.h"

#include <span>

#include "base/atomic.h"
#include "os/futex.h"
#include "os/lock.h"
#include "os/mapped_list.h"
#include "os/patient_writer.h"
#include "os/thread.h"
#include "sched/report.h"
#include "sched/stalls.h"

namespace magpie::rt {
namespace {

// Not destroyed at the end of the process: the default runtime never ends. And there before any
// constructor of a global, from which the program may start goroutines.
template <class T>
union kept {
  constexpr kept() : value() {}
  ~kept() {}
  T value;
};

constinit os::lock g_lock{os::lock_rank::service};
int g_users = 0;  // under the lock
constinit kept<os::thread> g_kept_thread;
constexpr os::thread& g_thread = g_kept_thread.value;  // under the lock
atomic<int> g_threads{0};

os::futex_word g_word{0};  // changes when there is something to do
atomic<bool> g_ends{false};

// Who has asked for a dump and has not got it yet: written by signal handlers. One that all zeros
// stand in is free; standard error needs no number, and two that ask for it get the same dump.
constexpr std::size_t k_most_askers = 64;
atomic<dump_target> g_askers[k_most_askers];  // 64 bits each: no lock in it
static_assert(atomic<dump_target>::is_always_lock_free);
atomic<bool> g_quit{false};

// What is to be printed, when there is time.
constinit os::lock g_text_lock{os::lock_rank::leaf};
constinit kept<os::mapped_list<char>> g_kept_text;
constexpr os::mapped_list<char>& g_text = g_kept_text.value;  // under the lock
constexpr std::size_t k_most_text = 1 << 20;
constexpr int k_standard_error = 2;

struct {
  atomic<void (*)(void*)> job{nullptr};
  void* argument = nullptr;
  atomic<std::uint32_t> asked{0};
  os::futex_word done{0};  // the number of the last one that was answered
} g_question;

void poke() {
  g_word.fetch_add(1, release);  // pairs with the acquire in service_main()
  os::futex_wake(&g_word, 1);
}

void give_dumps() {
  // relaxed, all of these: poke() has published what was asked for.
  if (g_quit.exchange(false, relaxed)) dump_on_request({});
  for (atomic<dump_target>& asker : g_askers) {
    const dump_target target = asker.load(relaxed);
    if (target == dump_target{}) continue;
    dump_on_request(target);
    // Only now: one who becomes impatient, and asks again, is there already.
    asker.store({}, relaxed);
  }
}

void answer_question() {
  auto* const job = g_question.job.exchange(nullptr, acquire);  // pairs with ask_service()
  if (job == nullptr) return;
  // relaxed: the job came with it. Those asked before it were given up.
  const std::uint32_t number = g_question.asked.load(relaxed);
  job(g_question.argument);
  g_question.done.store(number, release);  // pairs with ask_service()
  os::futex_wake(&g_question.done, 1);
}

void print_text() {
  os::mapped_list<char> text;
  {
    const os::lock_guard hold(g_text_lock);
    text.swap(g_text);
  }
  if (text.empty()) return;
  os::patient_writer(k_standard_error, k_patience_with_reader)
      .write(std::as_bytes(std::span(text.begin(), text.size())));
}

// One who dies waits for an answer, not for long; so that comes first, and again after whatever may
// have taken long.
void service_main(void*) {
  for (;;) {
    const std::uint32_t seen = g_word.load(acquire);  // pairs with poke()
    const bool ends = g_ends.load(acquire);           // pairs with runtime_leaves_service()
    answer_question();
    report_stall();
    print_text();
    answer_question();
    give_dumps();
    answer_question();
    if (ends) return;
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

void wake_service() { poke(); }

int service_threads() { return g_threads.load(relaxed); }  // relaxed: a count

void request_dump(dump_target target) {
  // relaxed, all of these: poke() publishes it.
  if (target == dump_target{}) {
    g_quit.store(true, relaxed);
    return poke();
  }
  for (const atomic<dump_target>& asker : g_askers) {
    if (asker.load(relaxed) == target) return;  // it waits, or is being served
  }
  for (atomic<dump_target>& asker : g_askers) {
    dump_target nobody{};
    if (asker.compare_exchange_strong(nobody, target, relaxed)) return poke();  // as above
  }
  // So many at a time: this one may ask again.
}

void print_soon(std::string_view text) {
  if (service_threads() == 0) return write_error_text(text.data(), text.size());
  {
    const os::lock_guard hold(g_text_lock);
    if (!g_text.empty() && g_text.size() + text.size() > k_most_text) return;
    g_text.add(text.data(), text.size());
  }
  poke();
}

bool ask_service(void (*job)(void*), void* argument, os::nanos patience) {
  if (service_threads() == 0) return false;
  const std::uint32_t number = g_question.asked.fetch_add(1, relaxed) + 1;  // relaxed: a number
  g_question.argument = argument;
  g_question.job.store(job, release);  // pairs with the exchange in answer_question()
  poke();
  const os::nanos end = os::now() + patience;
  for (;;) {
    const std::uint32_t so_far = g_question.done.load(acquire);  // pairs with answer_question()
    if (so_far >= number) return true;
    if (os::now() > end) return false;
    os::futex_wait(g_question.done, so_far, end);
  }
}

}  // namespace magpie::rt
