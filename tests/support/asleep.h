// Waiting until another thread sleeps in the kernel, for tests whose subject starts there.
#pragma once

#include <atomic>
#include <fstream>
#include <string>
#include <thread>

#include "os/thread.h"

namespace magpie::rt::testing {

// Whether the thread sleeps, and on a futex, as far as the kernel tells.
inline bool sleeps_on_a_futex(os::thread_id thread) {
  const std::string directory = "/proc/self/task/" + std::to_string(thread);
  std::string line;
  std::ifstream stat(directory + "/stat");
  std::getline(stat, line);
  if (line.find(") S ") == std::string::npos) return false;
  std::string place;
  std::ifstream wchan(directory + "/wchan");
  std::getline(wchan, place);
  return place.empty() || place == "0" || place.find("futex") != std::string::npos;
}

// `thread` is 0 until the thread has said who it is.
inline void wait_until_asleep(const std::atomic<os::thread_id>& thread) {
  while (thread.load() == 0 || !sleeps_on_a_futex(thread.load())) std::this_thread::yield();
}

}  // namespace magpie::rt::testing
