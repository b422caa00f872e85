#include "os/thread.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "fiber/sanitizer.h"
#include "os/note.h"
#include "refuse_syscall.h"
#include "support/subprocess.h"

namespace magpie::rt::os {
namespace {

using ::testing::HasSubstr;

using function = std::function<void()>;

result<thread> start(function& body, const thread_options& options = {}) {
  return thread::start([](void* f) { (*static_cast<function*>(f))(); }, &body, options);
}

// Runs `body` in a thread of ours, from start to end.
void run(function body, const thread_options& options = {}) {
  result<thread> made = start(body, options);
  ASSERT_TRUE(made) << error_name(made.error());
  made->join();
}

std::string kernel_name(thread_id id) {
  std::ifstream file("/proc/self/task/" + std::to_string(id) + "/comm");
  std::string name;
  std::getline(file, name);
  return name;
}

std::vector<bool> blocked_signals() {
  sigset_t set;
  pthread_sigmask(SIG_BLOCK, nullptr, &set);
  std::vector<bool> blocked(NSIG);
  for (int i = 1; i < NSIG; ++i) blocked[static_cast<std::size_t>(i)] = sigismember(&set, i) == 1;
  return blocked;
}

TEST(Thread, BodyRunsOnAnotherThreadWithItsArgument) {
  thread_id inside = 0;
  run([&] { inside = current_thread_id(); });
  EXPECT_NE(inside, 0);
  EXPECT_NE(inside, current_thread_id());
}

TEST(Thread, IdIsTheKernels) {
  EXPECT_EQ(current_thread_id(), static_cast<thread_id>(syscall(SYS_gettid)));
  thread_id inside = 0;
  bool exists = false;
  run([&] {
    inside = current_thread_id();
    exists = std::filesystem::exists("/proc/self/task/" + std::to_string(inside));
  });
  EXPECT_TRUE(exists) << inside;
}

TEST(Thread, NameIsVisibleFromOutside) {
  note told, checked;
  thread_id inside = 0;
  function body = [&] {
    inside = current_thread_id();
    told.wake();
    checked.wait();
  };
  result<thread> made = start(body, {.name = "magpie-worker"});
  ASSERT_TRUE(made);
  told.wait();
  EXPECT_EQ(kernel_name(inside), "magpie-worker");
  checked.wake();
  made->join();
}

TEST(Thread, NameIsSetBeforeTheBodyRuns) {
  std::string name;
  run([&] { name = kernel_name(current_thread_id()); }, {.name = "m1"});
  EXPECT_EQ(name, "m1");
}

TEST(Thread, NameIsCutToFifteenBytes) {
  std::string name;
  run([&] { name = kernel_name(current_thread_id()); }, {.name = "exactly15bytes!"});
  EXPECT_EQ(name, "exactly15bytes!");
  run([&] { name = kernel_name(current_thread_id()); }, {.name = "a name of more than 15 bytes"});
  EXPECT_EQ(name, "a name of more ");
}

TEST(Thread, NameCanBeChangedAndIsItsOwn) {
  const std::string ours = kernel_name(current_thread_id());
  std::string first, second;
  run([&] {
    first = kernel_name(current_thread_id());
    set_current_thread_name("renamed");
    second = kernel_name(current_thread_id());
  });
  EXPECT_EQ(first, ours) << "without a name it has its creator's";
  EXPECT_EQ(second, "renamed");
  EXPECT_EQ(kernel_name(current_thread_id()), ours);
}

TEST(Thread, StartsWithAllSignalsBlockedButFaults) {
  std::vector<bool> blocked;
  run([&] { blocked = blocked_signals(); });
  ASSERT_EQ(blocked.size(), static_cast<std::size_t>(NSIG));
  for (const int open : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGABRT, SIGSYS}) {
    EXPECT_FALSE(blocked[static_cast<std::size_t>(open)]) << strsignal(open);
  }
  for (const int closed : {SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2, SIGPIPE, SIGALRM,
                           SIGCHLD, SIGPROF, SIGURG, SIGWINCH, SIGIO, SIGRTMIN, SIGRTMAX}) {
#ifdef MAGPIE_EMULATOR
    if (closed == SIGRTMAX) continue;  // the emulator keeps one signal for itself
#endif
    EXPECT_TRUE(blocked[static_cast<std::size_t>(closed)]) << strsignal(closed);
  }
}

TEST(Thread, CreatorKeepsItsSignalMask) {
  sigset_t one, before;
  sigemptyset(&one);
  sigaddset(&one, SIGWINCH);
  pthread_sigmask(SIG_BLOCK, &one, &before);
  const std::vector<bool> expected = blocked_signals();
  run([] {});
  EXPECT_EQ(blocked_signals(), expected);
  function body = [] {};
  const result<thread> refused = start(body, {.stack_size = SIZE_MAX / 4});
  EXPECT_FALSE(refused);
  EXPECT_EQ(blocked_signals(), expected) << "after a failure too";
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

TEST(Thread, JoinWaitsForTheEndAndSeesWhatWasWritten) {
  for (int round = 0; round < 200; ++round) {
    int plain = 0;
    function body = [&] {
      sched_yield();
      plain = 42;
    };
    result<thread> made = start(body);
    ASSERT_TRUE(made);
    EXPECT_TRUE(made->joinable());
    made->join();
    EXPECT_EQ(plain, 42);
    EXPECT_FALSE(made->joinable());
  }
}

TEST(Thread, MovingHandsTheThreadOver) {
  function nothing = [] {};
  EXPECT_FALSE(thread().joinable());
  result<thread> made = start(nothing);
  ASSERT_TRUE(made);
  thread first = std::move(*made);
  EXPECT_FALSE(made->joinable());
  EXPECT_TRUE(first.joinable());
  thread second;
  second = std::move(first);
  EXPECT_FALSE(first.joinable());
  ASSERT_TRUE(second.joinable());
  second.join();
  result<thread> another = start(nothing);
  ASSERT_TRUE(another);
  second = std::move(*another);  // a joined one may be overwritten
  second.join();
}

TEST(Thread, ManyAtOnceAreToldApart) {
  constexpr std::size_t k_threads = 32;
  std::atomic<std::size_t> alive{0};
  std::vector<thread_id> ids(k_threads);
  std::vector<function> bodies(k_threads);
  std::vector<thread> threads;
  for (std::size_t i = 0; i < k_threads; ++i) {
    bodies[i] = [&, i] {
      ids[i] = current_thread_id();
      alive.fetch_add(1);
      while (alive.load() < k_threads) sched_yield();
    };
    result<thread> made = start(bodies[i]);
    ASSERT_TRUE(made);
    threads.push_back(std::move(*made));
  }
  for (thread& t : threads) t.join();
  EXPECT_EQ(std::set<thread_id>(ids.begin(), ids.end()).size(), k_threads);
}

// ---- stacks ----

std::size_t size_of(stack_bounds stack) {
  return static_cast<std::size_t>(static_cast<char*>(stack.high) - static_cast<char*>(stack.low));
}

bool contains(stack_bounds stack, const void* address) {
  return address >= stack.low && address < stack.high;
}

TEST(Thread, StackOfTheCallerContainsItsFrame) {
  const stack_bounds main_stack = current_thread_stack();
  EXPECT_TRUE(contains(main_stack, __builtin_frame_address(0)));
  stack_bounds inside;
  bool found = false;
  run([&] {
    inside = current_thread_stack();
    found = contains(inside, __builtin_frame_address(0));
  });
  EXPECT_TRUE(found);
  EXPECT_FALSE(contains(inside, __builtin_frame_address(0))) << "that is our stack, not its";
}

TEST(Thread, StackHasAtLeastTheSizeAskedFor) {
  for (const std::size_t size :
       {std::size_t{256} << 10, std::size_t{300'001}, std::size_t{8} << 20}) {
    stack_bounds inside;
    run([&] { inside = current_thread_stack(); }, {.stack_size = size});
    EXPECT_GE(size_of(inside), size);
    EXPECT_LT(size_of(inside), size + (std::size_t{1} << 20)) << "and not much more";
  }
}

TEST(Thread, StackOfOneByteIsTheSmallestThatWorks) {
  if (sanitizer::k_address || sanitizer::k_thread) {
    GTEST_SKIP() << "the sanitizer's own frames do not fit the smallest stack";
  }
  bool ran = false;
  function body = [&] { ran = true; };
  result<thread> made = start(body, {.stack_size = 1});
  ASSERT_TRUE(made) << error_name(made.error());
  made->join();
  EXPECT_TRUE(ran);
}

// ---- failures ----

TEST(Thread, StackThatDoesNotFitIsAnError) {
  bool ran = false;
  function body = [&] { ran = true; };
  result<thread> refused = start(body, {.stack_size = SIZE_MAX / 4});
  EXPECT_FALSE(refused);
  EXPECT_EQ(refused.error(), error{EAGAIN});
  for (const std::size_t size : {SIZE_MAX, SIZE_MAX - 1, SIZE_MAX - 4096, SIZE_MAX - 100'000}) {
    result<thread> made = start(body, {.stack_size = size});
    EXPECT_FALSE(made) << "a size that overflows when rounded up: " << size;
    if (made) made->join();
  }
  EXPECT_FALSE(ran);
}

TEST(Thread, KernelWithoutMoreThreadsIsAnError) {
  error seen;
  bool ran = false;
  if (!run_refused(SYS_clone3, EAGAIN, [&] {
        function body = [&] { ran = true; };
        result<thread> made = start(body);
        if (made) made->join();
        seen = made.error();
      })) {
    GTEST_SKIP() << "no seccomp filters here to refuse clone3 with";
  }
  if (ran) GTEST_SKIP() << "this libc does not start threads with clone3";
  EXPECT_EQ(seen, error{EAGAIN});
}

struct thread_misuse {
  const char* way;
  const char* words;
};

class ThreadMisuse : public ::testing::TestWithParam<thread_misuse> {};

TEST_P(ThreadMisuse, IsReported) {
  const auto end = testing::run_program("misuse", {GetParam().way});
  EXPECT_EQ(end.signal, SIGABRT);
  EXPECT_THAT(end.output, HasSubstr(std::string("magpie: internal error: ") + GetParam().words));
}

INSTANTIATE_TEST_SUITE_P(
    Ways, ThreadMisuse,
    ::testing::Values(thread_misuse{"join_twice", "join of a thread that is not there"},
                      thread_misuse{"join_nothing", "join of a thread that is not there"},
                      thread_misuse{"join_moved", "join of a thread that is not there"},
                      thread_misuse{"drop_thread", "a thread dropped before it was joined"},
                      thread_misuse{"overwrite_thread",
                                    "a thread overwritten before it was joined"}),
    [](const auto& misuse) { return std::string(misuse.param.way); });

}  // namespace
}  // namespace magpie::rt::os
