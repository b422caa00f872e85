// magpie dump PID: asks a running program for its goroutines.
//
// By SIGQUIT, with a value that says who asks: the program then writes to a pipe of ours, which it
// finds under /proc, instead of to its own standard error. Nothing is attached to the program, and
// it goes on. A program without magpie would die of the signal, so that is found out first.

#include <dirent.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <iostream>
#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>

#include "observe/text.h"
#include "tools/magpie/command.h"

namespace magpie_tool {
namespace {

constexpr int k_dump_here = 0x6d616700;  // as in sched/report.cpp
constexpr int k_patience_ms = 10'000;
constexpr int k_look_again_ms = 10;

pid_t parse_pid(std::string_view word) {
  const pid_t pid = number_from<pid_t>(word).value_or(0);
  if (pid <= 0) throw usage_error("\"" + std::string(word) + "\" is not the number of a process");
  return pid;
}

std::string first_line(const std::string& path) {
  std::ifstream in(path);
  std::string line;
  std::getline(in, line);
  return line;
}

// Every program with a runtime in it has a thread of that name.
bool runs_magpie(pid_t pid) {
  const std::string tasks = "/proc/" + std::to_string(pid) + "/task";
  const std::unique_ptr<DIR, int (*)(DIR*)> folder(opendir(tasks.c_str()), closedir);
  if (folder == nullptr) throw std::runtime_error("there is no process " + std::to_string(pid));
  while (const dirent* const entry = readdir(folder.get())) {
    if (first_line(tasks + "/" + entry->d_name + "/comm") == "magpie-service") return true;
  }
  return false;
}

// A field of /proc/PID/status; empty: there is none, or no such process.
std::string status_of(pid_t pid, std::string_view field) {
  std::ifstream in("/proc/" + std::to_string(pid) + "/status");
  for (std::string line; std::getline(in, line);) {
    if (line.starts_with(field)) return line.substr(field.size());
  }
  return {};
}

bool has_quit(const std::string& signals) {
  return !signals.empty() && (std::stoull(signals, nullptr, 16) >> (SIGQUIT - 1) & 1) != 0;
}

// The answer comes through a pipe of ours, which only the same user and root can open.
bool can_answer_us(pid_t pid) {
  const std::string users = status_of(pid, "Uid:");  // real, effective, ...
  unsigned real = 0, effective = 0;
  if (std::sscanf(users.c_str(), "%u %u", &real, &effective) != 2) return true;
  return effective == 0 || effective == geteuid();
}

// Of two signals that are on their way to a process at the same time the kernel keeps one: so one
// asks at a time. Held by a name, which is gone with its holder.
class turn {
 public:
  explicit turn(pid_t pid) : socket_(socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0)) {
    sockaddr_un name{};
    name.sun_family = AF_UNIX;  // a path that begins with 0 is in no folder
    const int length = std::snprintf(name.sun_path + 1, sizeof name.sun_path - 1, "magpie-dump-%d",
                                     static_cast<int>(pid));
    const auto size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 +
                                             static_cast<std::size_t>(length));
    const auto* const where = reinterpret_cast<const sockaddr*>(&name);
    // Not for ever: anybody may take the name.
    for (int waited = 0; waited < k_patience_ms; waited += k_look_again_ms) {
      if (bind(socket_, where, size) == 0 || errno != EADDRINUSE) return;
      poll(nullptr, 0, k_look_again_ms);
    }
  }
  ~turn() { close(socket_); }
  turn(const turn&) = delete;
  turn& operator=(const turn&) = delete;

 private:
  const int socket_;
};

// All of it before any is shown: the program does not wait for long, and a pager reads a page.
// False: nothing came any more, but not the end.
bool read_answer(const int (&ends)[2], std::string& answer) {
  for (;;) {
    pollfd wait{ends[0], POLLIN, 0};
    if (poll(&wait, 1, k_patience_ms) == 0) return false;
    char text[1 << 16];
    const ssize_t got = read(ends[0], text, sizeof text);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return true;
    // From now on the program has the other end open, and its end is the end.
    if (answer.empty()) close(ends[1]);
    answer.append(text, static_cast<std::size_t>(got));
  }
}

}  // namespace

int dump_command(const std::vector<std::string_view>& words) {
  if (words.size() != 1) throw usage_error("dump wants one PID");
  const pid_t pid = parse_pid(words[0]);
  const std::string who = "process " + std::to_string(pid);
  if (!runs_magpie(pid)) throw std::runtime_error(who + " has no magpie runtime in it");
  if (!can_answer_us(pid)) {
    throw std::runtime_error(who + " is of another user: ask as that user");
  }
  if (has_quit(status_of(pid, "SigIgn:"))) {
    throw std::runtime_error(who +
                             " ignores SIGQUIT, as what a shell script starts in the background "
                             "does");
  }
  if (!has_quit(status_of(pid, "SigCgt:"))) {
    throw std::runtime_error(who + " does not listen to SIGQUIT");
  }
  int ends[2];
  if (pipe(ends) != 0) throw std::runtime_error(std::strerror(errno));
  std::string text;
  bool whole = false;
  {
    const turn mine(pid);
    sigval value{};
    value.sival_int = k_dump_here + ends[1];
    if (sigqueue(pid, SIGQUIT, value) != 0) {
      throw std::runtime_error(errno == EPERM ? who + " is of another user: ask as that user"
                                              : who + " cannot be asked: " + std::strerror(errno));
    }
    whole = read_answer(ends, text);
  }
  std::cout << magpie::rt::printable_lines(text);
  if (!whole) {
    throw std::runtime_error(who +
                             " has not answered within ten seconds: it may have written to its "
                             "own standard error, or handle SIGQUIT itself");
  }
  return 0;
}

}  // namespace magpie_tool
