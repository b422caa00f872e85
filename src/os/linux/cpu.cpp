// The CPU quota takes three files to find:
//
//   /proc/self/cgroup     the process's place in each hierarchy, as "4:cpu,cpuacct:/docker/ab12"
//   /proc/self/mountinfo  which part of a hierarchy is mounted where
//   cpu.max (v2), cpu.cfs_quota_us (v1)  at <mount point> / <place without the mount's root>
//
// Inside a container the mount often shows only the container's own part of the hierarchy. Its
// root then is a prefix of the process's place and has to be taken off; a mount whose root is no
// such prefix shows somebody else's cgroups.
#include "os/cpu.h"

#include <fcntl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <charconv>
#include <cstring>
#include <span>

#include "os/fd.h"

namespace magpie::rt::os {
namespace {

// The lines of a file of any length. A line longer than the buffer is left out as a whole: in
// mountinfo that is an overlay with very many layers, never a cgroup.
class line_reader {
 public:
  explicit line_reader(const char* path) noexcept {
    if (result<file_descriptor> file = open_file(path, O_RDONLY)) file_ = std::move(*file);
  }

  // Without the newline, writable, valid until the next call; none at the end or on an error.
  std::optional<std::span<char>> next() noexcept {
    bool too_long = false;
    for (;;) {
      if (const auto line = take_line()) {
        if (!too_long) return line;
        too_long = false;
        continue;
      }
      if (end_ - begin_ == sizeof buffer_) {
        too_long = true;
        begin_ = end_ = 0;
      }
      if (!fill()) return too_long ? std::nullopt : take_rest();
    }
  }

 private:
  std::optional<std::span<char>> take_line() noexcept {
    const std::span<char> unread(buffer_ + begin_, end_ - begin_);
    const auto newline = std::find(unread.begin(), unread.end(), '\n');
    if (newline == unread.end()) return std::nullopt;
    const auto size = static_cast<std::size_t>(newline - unread.begin());
    begin_ += size + 1;
    return unread.first(size);
  }

  std::optional<std::span<char>> take_rest() noexcept {
    if (begin_ == end_) return std::nullopt;
    return std::span<char>(buffer_ + std::exchange(begin_, end_), buffer_ + end_);
  }

  bool fill() noexcept {
    std::memmove(buffer_, buffer_ + begin_, end_ - begin_);
    end_ -= std::exchange(begin_, 0);
    const auto got =
        os::read(file_.get(), std::as_writable_bytes(std::span(buffer_).subspan(end_)));
    if (!got || *got == 0) return false;
    end_ += *got;
    return true;
  }

  file_descriptor file_;
  std::size_t begin_ = 0;
  std::size_t end_ = 0;
  char buffer_[4096];
};

std::string_view as_text(std::span<const char> chars) { return {chars.data(), chars.size()}; }

// Cuts the part before the first `separator` off `text`; all of it when there is none.
std::string_view cut(std::string_view& text, char separator) noexcept {
  const std::string_view part = text.substr(0, text.find(separator));
  text.remove_prefix(std::min(part.size() + 1, text.size()));
  return part;
}

bool lists(std::string_view comma_separated, std::string_view word) noexcept {
  while (!comma_separated.empty()) {
    if (cut(comma_separated, ',') == word) return true;
  }
  return false;
}

bool is_below(std::string_view path, std::string_view directory) noexcept {
  return path.starts_with(directory) &&
         (path.size() == directory.size() || path[directory.size()] == '/');
}

bool is_octal(char c) { return c >= '0' && c <= '7'; }

// Undoes mountinfo's escapes (\040 for a space and so on), in place: the text only gets shorter.
std::string_view unescape(std::span<char> text) noexcept {
  std::size_t used = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const std::span<const char> digits =
        text.subspan(i + 1).first(std::min<std::size_t>(3, text.size() - i - 1));
    if (text[i] == '\\' && digits.size() == 3 && std::ranges::all_of(digits, is_octal)) {
      const int code = (digits[0] - '0') * 64 + (digits[1] - '0') * 8 + (digits[2] - '0');
      text[used++] = static_cast<char>(code);
      i += 3;
    } else {
      text[used++] = text[i];
    }
  }
  return as_text(text.first(used));
}

// A positive number that is all of `text`.
std::optional<std::int64_t> parse_positive(std::string_view text) noexcept {
  std::int64_t number = 0;
  const char* const end = text.data() + text.size();
  const auto [stop, failure] = std::from_chars(text.data(), end, number);
  if (failure != std::errc{} || stop != end || number <= 0) return std::nullopt;
  return number;
}

// The first line of one of the kernel's one-line files, or nothing if it is longer than those are.
class one_line_file {
 public:
  one_line_file(bounded_path& directory, std::string_view name) noexcept {
    const std::size_t size = directory.size();
    directory << "/" << name;
    load(directory.c_str());
    directory.truncate(size);
  }

  std::string_view text() const { return text_; }

 private:
  void load(const char* path) noexcept {
    const result<file_descriptor> file = open_file(path, O_RDONLY);
    if (!file) return;
    const auto got = os::read(file->get(), std::as_writable_bytes(std::span(buffer_)));
    if (!got || *got == sizeof buffer_) return;
    std::string_view all(buffer_, *got);
    text_ = cut(all, '\n');
  }

  char buffer_[128];
  std::string_view text_;
};

std::optional<cpu_quota> make_quota(std::string_view quota, std::string_view period) noexcept {
  const auto quota_number = parse_positive(quota);  // "max" (v2) and -1 (v1) are no limit
  const auto period_number = parse_positive(period);
  if (!quota_number || !period_number) return std::nullopt;
  return cpu_quota{*quota_number, *period_number};
}

// A file that is missing is no limit: the root cgroup has none, and neither has one whose parent
// does not enable the controller.
std::optional<cpu_quota> read_v2(bounded_path& directory) noexcept {
  const one_line_file file(directory, "cpu.max");
  std::string_view period = file.text();
  const std::string_view quota = cut(period, ' ');
  return make_quota(quota, period);
}

std::optional<cpu_quota> read_v1(bounded_path& directory) noexcept {
  const one_line_file quota(directory, "cpu.cfs_quota_us");
  if (!parse_positive(quota.text())) return std::nullopt;
  return make_quota(quota.text(), one_line_file(directory, "cpu.cfs_period_us").text());
}

}  // namespace

int affinity_count() noexcept {
  // The raw call, because glibc's takes a cpu_set_t of 1024 CPUs and the kernel refuses a buffer
  // that is too short for it. 64 Ki CPUs are eight times what Linux can be configured for.
  unsigned long mask[64 * 1024 / (8 * sizeof(unsigned long))];
  const long bytes = ::syscall(SYS_sched_getaffinity, 0, sizeof mask, mask);
  if (bytes < 0) return 1;
  int count = 0;
  for (std::size_t i = 0; i < static_cast<std::size_t>(bytes) / sizeof mask[0]; ++i) {
    count += std::popcount(mask[i]);
  }
  return std::max(count, 1);
}

bool cpu_quota::tighter_than(const cpu_quota& other) const noexcept {
  using wide = __int128;  // two 64-bit factors
  return wide{quota_microseconds} * other.period_microseconds <
         wide{other.quota_microseconds} * period_microseconds;
}

bounded_path& bounded_path::operator<<(std::string_view part) noexcept {
  fits_ = fits_ && part.size() < k_capacity - size_;
  if (!fits_) {
    size_ = 0;
  } else if (!part.empty()) {
    std::memcpy(text_ + size_, part.data(), part.size());
    size_ += part.size();
  }
  text_[size_] = '\0';
  return *this;
}

void bounded_path::truncate(std::size_t size) noexcept {
  size_ = std::min(size_, size);
  text_[size_] = '\0';
}

// The process's place in the two hierarchies that may have the cpu controller; empty where it
// has none.
struct cpu_quota_files::memberships {
  bounded_path v1;
  bounded_path v2;

  explicit memberships(const char* root) noexcept {
    bounded_path path;
    path << root << "/proc/self/cgroup";
    line_reader lines(path.c_str());
    while (const auto line = lines.next()) add(as_text(*line));
  }

 private:
  // "4:cpu,cpuacct:/place" (v1), "0::/place" (v2); the place itself may contain colons.
  void add(std::string_view line) noexcept {
    const std::string_view hierarchy = cut(line, ':');
    const std::string_view controllers = cut(line, ':');
    if (!line.starts_with('/')) return;
    if (lists(controllers, "cpu") && v1.size() == 0) v1 << line;
    if (hierarchy == "0" && controllers.empty() && v2.size() == 0) v2 << line;
  }
};

// A line of mountinfo: id parent major:minor root mount_point options [tag...] - type source
// super_options.
struct cpu_quota_files::mount {
  std::string_view root;
  std::string_view point;
  version kind = version::none;  // none: does not have the cpu controller

  // Unescapes within `line`.
  explicit mount(std::span<char> line) noexcept {
    std::string_view rest = as_text(line);
    for (int skipped = 0; skipped < 3; ++skipped) cut(rest, ' ');
    const std::string_view raw_root = cut(rest, ' ');
    const std::string_view raw_point = cut(rest, ' ');
    while (!rest.empty() && cut(rest, ' ') != "-") continue;
    const std::string_view type = cut(rest, ' ');
    cut(rest, ' ');
    if (type == "cgroup2") kind = version::v2;
    if (type == "cgroup" && lists(rest, "cpu")) kind = version::v1;
    if (kind == version::none) return;
    root = without_slash(unescape(writable(line, raw_root)));
    point = without_slash(unescape(writable(line, raw_point)));
  }

 private:
  static std::span<char> writable(std::span<char> line, std::string_view part) noexcept {
    return line.subspan(static_cast<std::size_t>(part.data() - line.data()), part.size());
  }

  // "/" as the empty path, so that paths can be joined.
  static std::string_view without_slash(std::string_view path) noexcept {
    return path == "/" ? std::string_view{} : path;
  }
};

cpu_quota_files::cpu_quota_files(const char* root) noexcept {
  const memberships places(root);
  bounded_path path;
  path << root << "/proc/self/mountinfo";
  line_reader lines(path.c_str());
  while (const auto line = lines.next()) consider(mount(*line), places, root);
}

// Takes the mount if it shows the process's cgroup, and better than the one found before: v1 wins
// (a process listed in a v1 cpu hierarchy has no quota in v2), then the mount that shows more
// ancestors.
void cpu_quota_files::consider(const mount& candidate, const memberships& places,
                               const char* root) noexcept {
  if (candidate.kind == version::none || candidate.kind < version_) return;
  if (candidate.kind == version_ && candidate.root.size() >= mount_root_size_) return;

  std::string_view place = candidate.kind == version::v1 ? places.v1.view() : places.v2.view();
  if (place.empty() || !is_below(place, candidate.root)) return;
  place.remove_prefix(candidate.root.size());
  if (place == "/") place = {};        // else read() would visit the mount point twice
  if (is_below(place, "/..")) return;  // outside of the mount and of our cgroup namespace

  bounded_path directory;
  directory << root << candidate.point;
  const std::size_t mount_point_size = directory.size();
  directory << place;
  const std::size_t size = directory.size();
  directory << "/cpu.cfs_period_us";  // the longest name that read() will append
  if (!directory.fits()) return;
  directory.truncate(size);
  version_ = candidate.kind;
  mount_root_size_ = candidate.root.size();
  mount_point_size_ = mount_point_size;
  directory_ = directory;
}

std::optional<cpu_quota> cpu_quota_files::read() const noexcept {
  if (!found()) return std::nullopt;
  std::optional<cpu_quota> tightest;
  for (bounded_path directory = directory_;;) {
    const auto quota = version_ == version::v1 ? read_v1(directory) : read_v2(directory);
    if (quota && (!tightest || quota->tighter_than(*tightest))) tightest = quota;
    if (directory.size() <= mount_point_size_) return tightest;
    directory.truncate(std::max(directory.view().rfind('/'), mount_point_size_));
  }
}

int usable_cpus(int affinity, const std::optional<cpu_quota>& quota) noexcept {
  if (!quota) return affinity;
  const std::int64_t whole = quota->quota_microseconds / quota->period_microseconds;
  const std::int64_t rest = quota->quota_microseconds % quota->period_microseconds;
  const std::int64_t limit = std::max<std::int64_t>(whole + (rest != 0 ? 1 : 0), 2);
  return static_cast<int>(std::min<std::int64_t>(limit, affinity));
}

int usable_cpus(const cpu_quota_files& files) noexcept {
  return usable_cpus(affinity_count(), files.read());
}

int usable_cpus() noexcept { return usable_cpus(cpu_quota_files()); }

}  // namespace magpie::rt::os
