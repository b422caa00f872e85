// How many CPUs this process may keep busy: the CPUs its threads may run on, and the bandwidth
// that its cgroups grant it.
//
// Nothing here uses the heap, stdio or exceptions, and all buffers are fixed: the monitor thread
// asks again once a second, and must not wait for a lock that a preempted goroutine holds.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

namespace magpie::rt::os {

// CPUs in the affinity mask of the calling thread, which a new thread inherits; at least 1.
int affinity_count() noexcept;

// So much CPU time in every period, over all threads. Both positive.
struct cpu_quota {
  std::int64_t quota_microseconds;
  std::int64_t period_microseconds;

  // Fewer CPUs' worth, whatever the periods.
  bool tighter_than(const cpu_quota& other) const noexcept;
  friend bool operator==(const cpu_quota&, const cpu_quota&) = default;
};

// A path of bounded length, always terminated. What does not fit is never cut short: the path
// becomes, and stays, empty and !fits(), because a wrong path may be somebody else's.
class bounded_path {
 public:
  bounded_path& operator<<(std::string_view part) noexcept;
  void truncate(std::size_t size) noexcept;

  bool fits() const { return fits_; }
  std::string_view view() const { return {text_, size_}; }
  const char* c_str() const { return text_; }
  std::size_t size() const { return size_; }

 private:
  static constexpr std::size_t k_capacity = 4096;  // PATH_MAX, the terminator included

  std::size_t size_ = 0;
  bool fits_ = true;
  char text_[k_capacity] = {};
};

// Where the kernel tells the CPU quota of this process: its cgroup, found once, and all the
// cgroups above it, because the tightest of them is what the process gets. cgroup v1, v2 and both
// at once; the cpu controller then belongs to exactly one of them.
//
// A process that is moved to another cgroup keeps reading the old one until a new object is made.
class cpu_quota_files {
 public:
  // `root` goes before every path that is opened, so that tests can bring a tree of their own.
  // Needs about 20 KiB of stack.
  explicit cpu_quota_files(const char* root = "") noexcept;

  // The tightest quota from the process's cgroup up to the root of the mount; none when there is
  // no limit or nothing readable. Two or three small reads per level. Any thread.
  std::optional<cpu_quota> read() const noexcept;

  bool found() const { return version_ != version::none; }

 private:
  enum class version {
    none,
    v2,
    v1,  // the last one, because it wins: see consider()
  };
  struct memberships;
  struct mount;

  void consider(const mount&, const memberships&, const char* root) noexcept;

  version version_ = version::none;
  std::size_t mount_point_size_ = 0;  // how far up directory_ the mount reaches
  std::size_t mount_root_size_ = 0;   // length of the mount's root, within the cgroup hierarchy
  bounded_path directory_;
};

// What a program may keep busy at once, by Go's rule: a quota is rounded up, so that none of it
// is wasted, and is at least 2, because on a single P one goroutine that computes delays all the
// others. Never more than the affinity allows.
int usable_cpus(int affinity, const std::optional<cpu_quota>& quota) noexcept;

// As things are now. Without files it finds them itself: for the start of a runtime.
int usable_cpus(const cpu_quota_files& files) noexcept;
int usable_cpus() noexcept;

}  // namespace magpie::rt::os
