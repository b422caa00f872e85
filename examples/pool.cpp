// Two ways to do many jobs a few at a time: workers that share a channel, and a group with a limit.
#include <magpie/magpie.h>

#include <algorithm>
#include <atomic>
#include <iostream>
#include <stdexcept>

namespace {

long collatz_steps(long n) {
  long steps = 0;
  for (; n != 1; ++steps) n = n % 2 == 0 ? n / 2 : 3 * n + 1;
  return steps;
}

// A fixed number of workers; each takes the next job when it is done with one.
void shared_channel() {
  const magpie::channel<long> jobs(64);
  const magpie::channel<long> results(64);
  magpie::wait_group workers;
  for (int i = 0; i < 4; ++i) {
    workers.go([&] {
      for (const long n : jobs) results.send(collatz_steps(n));
    });
  }
  magpie::go([=] {
    for (long n = 1; n <= 10'000; ++n) jobs.send(n);
    jobs.close();  // the workers' loops end
  });
  auto closer = magpie::async([&] {
    workers.wait();
    results.close();  // and then the loop below
  });
  long most = 0;
  for (const long steps : results) most = std::max(most, steps);
  closer.get();
  std::cout << "4 workers, 10000 jobs: at most " << most << " steps\n";
}

// A goroutine per job, at most four of them at a time. The first that fails ends the work.
void group_with_limit() {
  std::atomic<int> done{0};
  magpie::group jobs;
  jobs.set_limit(4);
  for (long n = 1; n <= 10'000 && !jobs.ctx().error(); ++n) {
    jobs.go([&done, n] {
      if (n == 5'000) throw std::runtime_error("job 5000 does not feel like it");
      collatz_steps(n);
      ++done;
    });
  }
  try {
    jobs.wait();
  } catch (const std::exception& e) {
    std::cout << "a group of 4: stopped after " << done << " jobs, because " << e.what() << '\n';
  }
}

}  // namespace

int main() {
  magpie::run([] {
    shared_channel();
    group_with_limit();
  });
}
