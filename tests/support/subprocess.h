// Runs one of tests/programs and keeps what it said: for tests of programs that are meant to
// die. (Forking a process that has threads, as death tests do, would test something else.)
#pragma once

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <sstream>
#include <string>
#include <vector>

extern char** environ;

namespace magpie::rt::testing {

struct program_end {
  int exit_code = -1;  // -1: ended by a signal
  int signal = 0;
  std::string output;  // standard output and error, as they came
};

// `arguments` follow the program's name; `settings` ("NAME=value") come on top of the
// environment.
inline program_end run_program(const std::string& name, std::vector<std::string> arguments = {},
                               std::vector<std::string> settings = {}) {
  std::vector<std::string> words;
#ifdef MAGPIE_EMULATOR
  std::istringstream emulator(MAGPIE_EMULATOR);
  for (std::string word; emulator >> word;) words.push_back(word);
#endif
  words.push_back(std::string(MAGPIE_PROGRAMS_DIR) + "/" + name);
  words.insert(words.end(), arguments.begin(), arguments.end());
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  std::vector<char*> environment;
  for (std::string& setting : settings) environment.push_back(setting.data());
  for (char** e = environ; *e != nullptr; ++e) environment.push_back(*e);
  environment.push_back(nullptr);

  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) std::abort();
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, ends[1], 1);
  posix_spawn_file_actions_adddup2(&actions, ends[1], 2);
  pid_t child = -1;
  const int failed =
      posix_spawnp(&child, argv[0], &actions, nullptr, argv.data(), environment.data());
  posix_spawn_file_actions_destroy(&actions);
  close(ends[1]);

  program_end end;
  if (failed != 0) {
    end.output = "cannot start " + words.front() + ": " + std::strerror(failed);
    close(ends[0]);
    return end;
  }
  char text[4096];
  ssize_t got;
  while ((got = read(ends[0], text, sizeof text)) > 0 || (got < 0 && errno == EINTR)) {
    if (got > 0) end.output.append(text, static_cast<std::size_t>(got));
  }
  close(ends[0]);
  int status = 0;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  if (WIFEXITED(status)) end.exit_code = WEXITSTATUS(status);
  if (WIFSIGNALED(status)) end.signal = WTERMSIG(status);
#ifdef MAGPIE_EMULATOR
  if (end.exit_code > 128) {  // how the emulator reports a signal
    end.signal = end.exit_code - 128;
    end.exit_code = -1;
  }
  // It also says so, after the program's own last word.
  const std::size_t comment = end.output.find("qemu: uncaught target signal");
  if (comment != std::string::npos) end.output.resize(comment);
#endif
  return end;
}

}  // namespace magpie::rt::testing
