// Whoever releases those who wait must not touch the object afterwards: the first one back, or one
// who only looks, may have destroyed it. What a race would show once in a million runs is shown
// here in every run: the releasing thread goes through its call step by step, by the processor's
// trap flag, and after each instruction somebody looks whether the object could be gone by now. As
// soon as it could, its page is taken away, and whoever still touches it is found.

#include <gtest/gtest.h>

#include "fiber/sanitizer.h"

#if defined(__x86_64__)

#include <magpie/magpie.h>

#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <ucontext.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>
#include <functional>
#include <mutex>
#include <new>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "support/asleep.h"

namespace magpie {
namespace {

constexpr std::size_t k_page = 4096;
constexpr greg_t k_trap_flag = 0x100;

// What the handlers know.
struct {
  std::byte* page = nullptr;
  bool (*is_over)(void* object) = nullptr;
  std::atomic<int> back{0};  // of those who waited
  int stat = -1;             // of the one that waits: its file in /proc
  bool gone = false;         // the page
  volatile bool ends = false;
  long steps = 0, steps_after = 0;
  std::atomic<bool> touched{false};
} g_watch;

bool is_awake(int stat) {
  char text[128];
  const ssize_t size = stat >= 0 ? pread(stat, text, sizeof text - 1, 0) : 0;
  text[std::max<ssize_t>(size, 0)] = '\0';
  return size > 0 && std::strstr(text, ") S ") == nullptr;
}

// A bug is found at one of the steps between the wake and the touch: so a thread that was woken
// gets the time to come back. On a busy machine that is until it has a processor; but it may need
// the very lock that is held while the steps are taken.
bool somebody_comes_back() {
  const auto start = clock::now();
  const auto has_passed = [&](auto time) { return clock::now() - start >= time; };
  while (g_watch.back == 0 && !has_passed(std::chrono::microseconds(100))) {
  }
  while (g_watch.back == 0 && is_awake(g_watch.stat) &&
         !has_passed(std::chrono::milliseconds(50))) {
    sched_yield();
  }
  return g_watch.back != 0;
}

void on_step(int, siginfo_t*, void* raw) {
  ++g_watch.steps;
  if (g_watch.gone) {
    ++g_watch.steps_after;
  } else if (g_watch.is_over(g_watch.page) || somebody_comes_back()) {
    g_watch.gone = true;
    mprotect(g_watch.page, k_page, PROT_NONE);
  }
  if (g_watch.ends) static_cast<ucontext_t*>(raw)->uc_mcontext.gregs[REG_EFL] &= ~k_trap_flag;
}

void on_fault(int, siginfo_t* info, void*) {
  auto* const at = static_cast<std::byte*>(info->si_addr);
  if (at < g_watch.page || at >= g_watch.page + k_page) {
    signal(SIGSEGV, SIG_DFL);
    return;
  }
  g_watch.touched = true;
  mprotect(g_watch.page, k_page, PROT_READ | PROT_WRITE);
}

void begin_steps() {
  asm volatile(
      "subq $128, %%rsp\n\t"
      "pushfq\n\t"
      "orq $0x100, (%%rsp)\n\t"
      "popfq\n\t"
      "addq $128, %%rsp" ::
          : "memory", "cc");
}

void end_steps() { g_watch.ends = true; }

class LastTouch : public ::testing::Test {
 protected:
  void SetUp() override {
    if (rt::sanitizer::k_thread || rt::sanitizer::k_address) {
      GTEST_SKIP() << "sanitizers find such touches themselves, and cannot be stepped through";
    }
    g_watch.page = static_cast<std::byte*>(
        mmap(nullptr, k_page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    ASSERT_NE(g_watch.page, MAP_FAILED);
    install(SIGTRAP, on_step, old_trap_);
    install(SIGSEGV, on_fault, old_fault_);
  }
  void TearDown() override {
    if (g_watch.page == nullptr) return;
    sigaction(SIGTRAP, &old_trap_, nullptr);
    sigaction(SIGSEGV, &old_fault_, nullptr);
    munmap(g_watch.page, k_page);
    g_watch.page = nullptr;
  }

  // `release` calls begin_steps() itself where `steps_itself`. The object is not destroyed: what is
  // looked for is whether it could have been.
  template <class Object, class... Args>
  Object& make(Args&&... args) {
    g_watch.is_over = [](void*) { return false; };
    g_watch.back = 0;
    g_watch.gone = false;
    g_watch.ends = false;
    g_watch.steps = 0;
    g_watch.steps_after = 0;
    g_watch.touched = false;
    return *new (g_watch.page) Object(std::forward<Args>(args)...);
  }

  template <class Object>
  void let_look(bool (*look)(Object&)) {
    static bool (*looks)(Object&) = nullptr;
    looks = look;
    g_watch.is_over = [](void* object) { return looks(*static_cast<Object*>(object)); };
  }

  // A thread that waits, asleep on return.
  void start_waiter(const std::function<void()>& wait) {
    std::atomic<pid_t> id{0};
    waiters_.emplace_back([&id, wait] {
      id = gettid();
      wait();
      ++g_watch.back;
    });
    rt::testing::wait_until_asleep(id);
    const std::string stat = "/proc/self/task/" + std::to_string(id.load()) + "/stat";
    if (g_watch.stat >= 0) close(g_watch.stat);
    g_watch.stat = open(stat.c_str(), O_RDONLY | O_CLOEXEC);
    ASSERT_GE(g_watch.stat, 0);
  }

  void expect_untouched() {
    for (std::thread& w : waiters_) w.join();
    waiters_.clear();
    if (g_watch.stat >= 0) close(std::exchange(g_watch.stat, -1));
    EXPECT_TRUE(g_watch.gone) << "nobody could have destroyed it";
    EXPECT_GT(g_watch.steps_after, 0) << "nothing was watched";
    EXPECT_FALSE(g_watch.touched);
  }

 private:
  static void install(int number, void (*handler)(int, siginfo_t*, void*), struct sigaction& old) {
    struct sigaction action {};
    action.sa_sigaction = handler;
    action.sa_flags = SA_SIGINFO | SA_NODEFER;
    sigaction(number, &action, &old);
  }

  struct sigaction old_trap_ {
  }, old_fault_{};
  std::vector<std::thread> waiters_;
};

TEST_F(LastTouch, OnceWithOthersThatWait) {
  auto& o = make<once>();
  let_look<once>([](once& it) { return it.done(); });
  o.call([&] {
    for (int i = 0; i < 2; ++i) start_waiter([&o] { o.call([] {}); });
    begin_steps();
  });
  end_steps();
  expect_untouched();
}

TEST_F(LastTouch, OnceAlone) {
  auto& o = make<once>();
  let_look<once>([](once& it) { return it.done(); });
  o.call(begin_steps);
  end_steps();
  expect_untouched();
}

// Waiters that come back are enough to let it go.
TEST_F(LastTouch, OnceWithoutALook) {
  auto& o = make<once>();
  o.call([&] {
    start_waiter([&o] { o.call([] {}); });
    begin_steps();
  });
  end_steps();
  expect_untouched();
}

TEST_F(LastTouch, WaitGroup) {
  auto& w = make<wait_group>();
  w.add(1);
  for (int i = 0; i < 2; ++i) start_waiter([&w] { w.wait(); });
  begin_steps();
  w.done();
  end_steps();
  expect_untouched();
}

TEST_F(LastTouch, Latch) {
  auto& l = make<latch>(1);
  let_look<latch>([](latch& it) { return it.try_wait(); });
  for (int i = 0; i < 2; ++i) start_waiter([&l] { l.wait(); });
  begin_steps();
  l.count_down();
  end_steps();
  expect_untouched();
}

TEST_F(LastTouch, Event) {
  auto& e = make<event>();
  let_look<event>([](event& it) { return it.is_set(); });
  start_waiter([&e] { e.wait(); });
  start_waiter([&e] { e.wait_for(std::chrono::hours(1)); });
  begin_steps();
  e.set();
  end_steps();
  expect_untouched();
}

TEST_F(LastTouch, Barrier) {
  auto& b = make<barrier<>>(3);
  for (int i = 0; i < 2; ++i) start_waiter([&b] { b.arrive_and_wait(); });
  begin_steps();
  (void)b.arrive();
  end_steps();
  expect_untouched();
}

TEST_F(LastTouch, SemaphoreThatNobodyWaitsFor) {
  auto& s = make<semaphore>(0);
  let_look<semaphore>([](semaphore& it) { return it.try_acquire(); });
  begin_steps();
  s.release();
  end_steps();
  expect_untouched();
}

TEST_F(LastTouch, Semaphore) {
  auto& s = make<semaphore>(0);
  for (int i = 0; i < 2; ++i) start_waiter([&s] { s.acquire(); });
  begin_steps();
  s.release(2);
  end_steps();
  expect_untouched();
}

TEST_F(LastTouch, MutexThatNobodyWaitsFor) {
  auto& m = make<mutex>();
  m.lock();
  let_look<mutex>([](mutex& it) { return it.try_lock(); });
  begin_steps();
  m.unlock();
  end_steps();
  expect_untouched();
}

TEST_F(LastTouch, Mutex) {
  auto& m = make<mutex>();
  m.lock();
  start_waiter([&m] {
    m.lock();
    m.unlock();
  });
  begin_steps();
  m.unlock();
  end_steps();
  expect_untouched();
}

TEST_F(LastTouch, ConditionVariable) {
  auto& cv = make<condition_variable>();
  mutex guard;
  for (int i = 0; i < 2; ++i) {
    start_waiter([&] {
      std::unique_lock hold(guard);
      cv.wait(hold);
    });
  }
  begin_steps();
  cv.notify_all();
  end_steps();
  expect_untouched();
}

}  // namespace
}  // namespace magpie

#else

TEST(LastTouch, NeedsATrapFlag) { GTEST_SKIP() << "of x86-64"; }

#endif
