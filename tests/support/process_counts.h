// What this process has of the kernel: for tests that nothing is left behind.
#pragma once

#include <chrono>
#include <cstddef>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <thread>

namespace magpie::rt::testing {

inline std::size_t entries_of(const char* directory) {
  std::size_t count = 0;
  for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator(directory)) ++count;
  return count;
}

inline std::size_t thread_count() { return entries_of("/proc/self/task"); }
inline std::size_t descriptor_count() { return entries_of("/proc/self/fd"); }

inline std::size_t mapping_count() {
  std::ifstream maps("/proc/self/maps");
  std::size_t count = 0;
  for (std::string line; std::getline(maps, line);) ++count;
  return count;
}

// A joined thread is in /proc for a moment longer. False: not within ten seconds.
inline bool thread_count_becomes(std::size_t count) {
  const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(10);
  while (thread_count() != count) {
    if (std::chrono::steady_clock::now() > limit) return false;
    std::this_thread::yield();
  }
  return true;
}

}  // namespace magpie::rt::testing
