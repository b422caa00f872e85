// Plain blocking calls in goroutines: code that never heard of magpie. They return what they should
// when they should, and those who could run meanwhile do.

#include <fcntl.h>
#include <gtest/gtest.h>
#include <linux/userfaultfd.h>
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <sys/epoll.h>
#include <sys/file.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

#include <magpie/magpie.h>

namespace magpie {
namespace {

using namespace std::chrono_literals;
using steady = std::chrono::steady_clock;

// How long each call blocks, unless somebody ends it. On a busy machine the monitor may have to
// wait for a processor for a tenth of a second before it can see that.
constexpr std::chrono::milliseconds k_block = 400ms;
constexpr auto k_block_millis = static_cast<int>(k_block.count());
constexpr long k_block_nanos = std::chrono::nanoseconds(k_block).count();

// Rounds that goroutines on the same Ps get through while `body` blocks in eight others.
struct beside {
  long rounds = 0;
  stats at_end;
};

beside run_in_eight(int procs, const std::function<void()>& body) {
  beside result;
  runtime r({.procs = procs});
  r.run([&] {
    std::atomic<bool> over{false};
    std::atomic<long> rounds{0};
    wait_group blockers, others;
    for (int i = 0; i < 8; ++i) blockers.go(body);
    for (int i = 0; i < 2; ++i) {
      others.go([&] {
        while (!over.load()) {
          this_goroutine::sleep_for(1ms);
          rounds.fetch_add(1);
        }
      });
    }
    blockers.wait();
    over = true;
    others.wait();
    result.rounds = rounds.load();
  });
  result.at_end = r.read_stats();
  return result;
}

// They blocked at the same time, each on a thread of its own, and others ran: without takeovers it
// would have been four times as long, and nobody else would have run.
void expect_taken_over(const beside& result) {
  EXPECT_GE(result.at_end.retakes, 6u);
  EXPECT_GE(result.rounds, 10);
}

struct stopwatch {
  const steady::time_point start = steady::now();
  auto elapsed() const { return steady::now() - start; }
};

TEST(Takeover, Nanosleep) {
  expect_taken_over(run_in_eight(2, [] {
    const stopwatch watch;
    const timespec time{0, k_block_nanos};
    timespec left{};
    EXPECT_EQ(::nanosleep(&time, &left), 0);
    EXPECT_GE(watch.elapsed(), k_block);
  }));
}

TEST(Takeover, Sleep) {
  expect_taken_over(run_in_eight(2, [] {
    const stopwatch watch;
    EXPECT_EQ(::sleep(1), 0u);
    EXPECT_GE(watch.elapsed(), 1s);
  }));
}

TEST(Takeover, Poll) {
  expect_taken_over(run_in_eight(2, [] {
    const stopwatch watch;
    EXPECT_EQ(::poll(nullptr, 0, k_block_millis), 0);
    EXPECT_GE(watch.elapsed(), k_block);
  }));
}

TEST(Takeover, EpollWait) {
  expect_taken_over(run_in_eight(2, [] {
    const stopwatch watch;
    const int poller = ::epoll_create1(EPOLL_CLOEXEC);
    epoll_event event{};
    EXPECT_EQ(::epoll_wait(poller, &event, 1, k_block_millis), 0);
    EXPECT_GE(watch.elapsed(), k_block);
    ::close(poller);
  }));
}

TEST(Takeover, SemTimedwait) {
  expect_taken_over(run_in_eight(2, [] {
    const stopwatch watch;
    sem_t semaphore;
    ::sem_init(&semaphore, 0, 0);
    timespec until{};
    ::clock_gettime(CLOCK_REALTIME, &until);
    until.tv_nsec += k_block_nanos;
    if (until.tv_nsec >= 1'000'000'000) {
      until.tv_nsec -= 1'000'000'000;
      ++until.tv_sec;
    }
    EXPECT_EQ(::sem_timedwait(&semaphore, &until), -1);
    EXPECT_EQ(errno, ETIMEDOUT);
    EXPECT_GE(watch.elapsed(), k_block - 1ms);
    ::sem_destroy(&semaphore);
  }));
}

// A pair of ends: what is written to the second is read from the first.
struct pipe_ends {
  int ends[2] = {-1, -1};
  explicit pipe_ends(bool socket) {
    if (socket) {
      EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
    } else {
      EXPECT_EQ(::pipe2(ends, O_CLOEXEC), 0);
    }
  }
  ~pipe_ends() {
    ::close(ends[0]);
    ::close(ends[1]);
  }
};

TEST(Takeover, ReadFromAPipe) {
  expect_taken_over(run_in_eight(2, [] {
    const pipe_ends pipe(false);
    go([end = pipe.ends[1]] {
      this_goroutine::sleep_for(k_block);
      EXPECT_EQ(::write(end, "x", 1), 1);
    });
    char got = 0;
    EXPECT_EQ(::read(pipe.ends[0], &got, 1), 1);
    EXPECT_EQ(got, 'x');
  }));
}

TEST(Takeover, Recv) {
  expect_taken_over(run_in_eight(2, [] {
    const pipe_ends pair(true);
    go([end = pair.ends[1]] {
      this_goroutine::sleep_for(k_block);
      EXPECT_EQ(::send(end, "hello", 5, 0), 5);
    });
    char got[8] = {};
    EXPECT_EQ(::recv(pair.ends[0], got, sizeof got, 0), 5);
    EXPECT_STREQ(got, "hello");
  }));
}

// Holds what the others want until the Ps of six were taken, however busy the machine is.
void hold_for_long() {
  do {
    std::this_thread::sleep_for(10ms);
  } while (runtime::current().read_stats().retakes < 6);
}

// The one who holds it needs a P to go on: on one P, or with all Ps blocked, nothing would.
TEST(Takeover, PthreadMutex) {
  for (const int procs : {1, 2}) {
    std::mutex lock;
    std::atomic<int> inside{0};
    const beside result = run_in_eight(procs, [&] {
      const std::scoped_lock hold(lock);
      EXPECT_EQ(inside.fetch_add(1), 0);
      hold_for_long();
      inside.fetch_sub(1);
    });
    EXPECT_GE(result.at_end.retakes, 6u);
    EXPECT_GE(result.rounds, 10);
  }
}

TEST(Takeover, Flock) {
  char path[] = "/tmp/magpie_flock_XXXXXX";
  const int made = ::mkstemp(path);
  ASSERT_GE(made, 0);
  std::atomic<int> inside{0};
  const beside result = run_in_eight(2, [&] {
    const int file = ::open(path, O_RDWR | O_CLOEXEC);
    EXPECT_EQ(::flock(file, LOCK_EX), 0);
    EXPECT_EQ(inside.fetch_add(1), 0);
    hold_for_long();
    inside.fetch_sub(1);
    EXPECT_EQ(::flock(file, LOCK_UN), 0);
    ::close(file);
  });
  EXPECT_GE(result.at_end.retakes, 6u);
  ::close(made);
  ::unlink(path);
}

// A page that is not there until somebody, here a goroutine, has brought it.
TEST(Takeover, PageFault) {
  const int faults = static_cast<int>(::syscall(SYS_userfaultfd, O_CLOEXEC | O_NONBLOCK | 1));
  if (faults < 0) GTEST_SKIP() << "userfaultfd is not allowed here";
  uffdio_api api{};
  api.api = UFFD_API;
  ASSERT_EQ(::ioctl(faults, UFFDIO_API, &api), 0);
  const auto page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  void* const memory =
      ::mmap(nullptr, page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(memory, MAP_FAILED);
  uffdio_register wanted{};
  wanted.range = {reinterpret_cast<std::uintptr_t>(memory), page};
  wanted.mode = UFFDIO_REGISTER_MODE_MISSING;
  ASSERT_EQ(::ioctl(faults, UFFDIO_REGISTER, &wanted), 0);
  runtime r({.procs = 1});
  r.run([&] {
    auto touched = async([&] { return *static_cast<volatile char*>(memory); });
    int rounds = 0;
    for (; rounds < 20; ++rounds) this_goroutine::sleep_for(1ms);
    EXPECT_FALSE(touched.ready());
    uffdio_zeropage zero{};
    zero.range = wanted.range;
    EXPECT_EQ(::ioctl(faults, UFFDIO_ZEROPAGE, &zero), 0);
    EXPECT_EQ(touched.get(), 0);
  });
  EXPECT_GE(r.read_stats().retakes, 1u);
  ::munmap(memory, page);
  ::close(faults);
}

// A thread that sleeps again and again, and calls into the runtime in between.
TEST(Takeover, ComesBackThroughTheGateAgainAndAgain) {
  for (const int procs : {1, 2}) {
    std::atomic<int> sum{0};
    runtime r({.procs = procs});
    r.run([&] {
      channel<int> results(4);
      wait_group all;
      for (int i = 0; i < 8; ++i) {
        all.go([&] {
          for (int round = 0; round < 20; ++round) {
            ::usleep(3000);
            results.send(1);
          }
        });
      }
      for (int i = 0; i < 160; ++i) sum += *results.receive();
      all.wait();
    });
    EXPECT_EQ(sum, 160);
    EXPECT_GE(r.read_stats().retakes, 8u);
  }
}

// A goroutine that is locked to its thread keeps the thread, not the P.
TEST(Takeover, OfAGoroutineLockedToItsThread) {
  runtime r({.procs = 1});
  r.run([&] {
    std::atomic<bool> other_ran{false};
    auto locked = async([&] {
      const thread_lock stay;
      const auto self = ::gettid();
      for (int i = 0; i < 10; ++i) {
        ::usleep(5000);
        this_goroutine::yield();
        EXPECT_EQ(::gettid(), self);
      }
      EXPECT_TRUE(other_ran.load());
    });
    go([&] {
      this_goroutine::sleep_for(1ms);
      other_ran = true;
    });
    locked.get();
  });
}

// How often the monitor has asked the kernel about a thread, which it does by reading files.
// Nothing where the kernel does not count that.
std::optional<long> reads_of_the_monitor() {
  for (const auto& task : std::filesystem::directory_iterator("/proc/self/task")) {
    std::string name, word;
    if (!std::getline(std::ifstream(task.path() / "comm"), name) || name != "magpie-monitor")
      continue;
    std::ifstream counts(task.path() / "io");
    long reads = 0;
    while (counts >> word) {
      if (word == "syscr:" && counts >> reads) return reads;
    }
  }
  return std::nullopt;
}

// There may be thousands of them, and everybody needs the monitor.
TEST(Takeover, ThreadsThatSleepOnAreNotLookedAtAgainAndAgain) {
  constexpr int k_blocked = 100;
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  runtime r({.procs = 2, .max_threads = k_blocked + 20});
  r.run([&] {
    std::atomic<int> begun{0};
    wait_group blocked;
    for (int i = 0; i < k_blocked; ++i) {
      blocked.go([&] {
        ++begun;
        char nothing;
        EXPECT_EQ(read(ends[0], &nothing, 1), 0);
      });
    }
    while (begun != k_blocked) this_goroutine::sleep_for(1ms);
    this_goroutine::sleep_for(50ms);
    const std::optional<long> before = reads_of_the_monitor();
    for (int i = 0; i < 500; ++i) this_goroutine::sleep_for(1ms);
    if (before) {
      EXPECT_LT(*reads_of_the_monitor() - *before, 10 * k_blocked);
    }
    close(ends[1]);
    blocked.wait();
    if (!before) GTEST_SKIP() << "the kernel does not count what a thread reads";
  });
  close(ends[0]);
}

}  // namespace
}  // namespace magpie
