// Mutexes.

#include "workloads.h"

#include <magpie/mutex.h>
#include <magpie/shared_mutex.h>

#include <mutex>
#include <shared_mutex>

namespace workloads {
namespace {

// Mutex: a hundred goroutines count under one lock.
constexpr long k_lockers = 100;

nanoseconds count_all(long each) {
  magpie::mutex mutex;
  long counter = 0;
  const nanoseconds elapsed = together(k_lockers, [&mutex, &counter, each] {
    for (long i = 0; i < each; ++i) {
      const std::lock_guard lock(mutex);
      ++counter;
    }
  });
  if (counter != k_lockers * each) fail("mutex: wrong count");
  return elapsed;
}

void mutex() {
  const long each = count(20'000);
  count_all(std::max(1L, each / 10));
  report("mutex", per_operation(count_all(each), k_lockers * each), "ns/op");
}

// The same, but whoever holds the lock gives way, so that nearly everyone who wants it waits.
nanoseconds count_all_yielding(long each) {
  magpie::mutex mutex;
  long counter = 0;
  const nanoseconds elapsed = together(k_lockers, [&mutex, &counter, each] {
    for (long i = 0; i < each; ++i) {
      const std::lock_guard lock(mutex);
      ++counter;
      magpie::this_goroutine::yield();
    }
  });
  if (counter != k_lockers * each) fail("mutex_park: wrong count");
  return elapsed;
}

void mutex_park() {
  const long each = count(5'000);
  count_all_yielding(std::max(1L, each / 10));
  report("mutex_park", per_operation(count_all_yielding(each), k_lockers * each), "ns/op");
}

// Shared readers: four goroutines per P read under a lock that nobody takes to write.
nanoseconds read_all(long readers, long each) {
  magpie::shared_mutex mutex;
  volatile long one = 1;  // read each time, not once before the loop
  std::atomic<long> sum{0};
  const nanoseconds elapsed = together(readers, [&mutex, &one, &sum, each] {
    long mine = 0;
    for (long i = 0; i < each; ++i) {
      const std::shared_lock lock(mutex);
      mine += one;
    }
    sum += mine;
  });
  if (sum != readers * each) fail("shared_readers: wrong sum");
  return elapsed;
}

void shared_readers() {
  const long readers = 4L * g_procs;
  const long each = std::max(1L, count(4'000'000) / readers);
  read_all(readers, std::max(1L, each / 10));
  report("shared_readers", per_operation(read_all(readers, each), readers * each), "ns/op");
}

// Shared mixed: a hundred goroutines, of whose operations one in ten writes.
constexpr long k_reads_per_write = 9;

nanoseconds read_and_write_all(long each) {
  magpie::shared_mutex mutex;
  long counter = 0;
  volatile long one = 1;
  std::atomic<long> sum{0};
  const nanoseconds elapsed = together(k_lockers, [&mutex, &counter, &one, &sum, each] {
    long mine = 0;
    for (long i = 0; i < each; ++i) {
      if (i % (k_reads_per_write + 1) == 0) {
        const std::lock_guard lock(mutex);
        ++counter;
      } else {
        const std::shared_lock lock(mutex);
        mine += one;
      }
    }
    sum += mine;
  });
  if (sum + counter != k_lockers * each) fail("shared_mixed: wrong sum");
  return elapsed;
}

void shared_mixed() {
  const long each = count(30'000);
  read_and_write_all(std::max(1L, each / 10));
  report("shared_mixed", per_operation(read_and_write_all(each), k_lockers * each), "ns/op");
}

}  // namespace

void add_locks(table& to) {
  to["mutex"] = mutex;
  to["mutex_park"] = mutex_park;
  to["shared_readers"] = shared_readers;
  to["shared_mixed"] = shared_mixed;
}

}  // namespace workloads
