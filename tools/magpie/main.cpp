// The command line tool: `magpie trace ...` looks at traces, `magpie dump` and `magpie top` at a
// running program.

#include <sys/stat.h>

#include <algorithm>
#include <exception>
#include <iostream>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include <magpie/version.h>

#include "tools/magpie/command.h"

namespace {

constexpr std::string_view k_help = R"(magpie: look into programs that use magpie

  magpie trace check FILE           is it a whole and consistent trace?
  magpie trace summary FILE         the numbers: states, waits, latencies, Ps
  magpie trace view FILE            in the browser, served on loopback until Ctrl-C
      --port N                      instead of any free one
      --no-browser                  only say where
  magpie trace html FILE            one page with the trace in it, to send around
      -o OUT                        instead of FILE with another ending; - is standard output
  magpie trace convert --to chrome|perfetto|html FILE
      -o OUT                        the same
  magpie dump PID                   all goroutines of a running program, with their stacks
  magpie top ADDRESS                a running process, if it has a debug::server:
                                    host:port, or the path of a unix socket
      --once                        print it once and end
      --interval SECONDS            instead of 1
      --goroutine N                 what that one does
  magpie --version

The format is Go's execution trace, which "go tool trace" opens as well.
)";

bool asks_for_help(std::string_view word) { return word == "--help" || word == "-h"; }

// The lines about the commands that begin with `command`; all of them where there is no such one.
std::string help_about(std::string_view command) {
  if (command.empty()) return std::string(k_help);
  std::string lines;
  bool about = false;
  for (std::string_view rest = k_help; !rest.empty();) {
    const std::string_view line = rest.substr(0, rest.find('\n') + 1);
    rest.remove_prefix(line.size());
    if (line.starts_with("  magpie ")) about = line.substr(2).starts_with(command);
    if (line.size() == 1) about = false;
    if (about) lines += line;
  }
  return lines.empty() ? std::string(k_help) : lines;
}

// The words that name a command, out of those after "magpie".
std::string command_in(const std::vector<std::string_view>& words) {
  std::string command;
  for (std::size_t i = 0; i < words.size() && i < 2 && !words[i].starts_with("-"); ++i) {
    command += (i == 0 ? "magpie " : " ") + std::string(words[i]);
    if (words[0] != "trace") break;
  }
  return command;
}

int print_help(const std::vector<std::string_view>& words) {
  std::cout << help_about(command_in(words));
  return 0;
}

int run(const std::vector<std::string_view>& words) {
  if (words.empty()) {
    std::cerr << k_help;
    return magpie_tool::k_usage;
  }
  if (words[0] == "help") return print_help({words.begin() + 1, words.end()});
  if (std::any_of(words.begin(), words.end(), asks_for_help)) return print_help(words);
  if (words[0] == "--version") {
    std::cout << "magpie " << magpie::version() << '\n';
    return 0;
  }
  if (words[0] == "top") return magpie_tool::top_command({words.begin() + 1, words.end()});
  if (words[0] == "trace") return magpie_tool::trace_command({words.begin() + 1, words.end()});
  if (words[0] == "dump") return magpie_tool::dump_command({words.begin() + 1, words.end()});
  throw magpie_tool::usage_error("there is no command \"" + std::string(words[0]) + "\"");
}

}  // namespace

int main(int count, char** words) {
  umask(077);  // traces, and what is made of them, tell much about a program
  try {
    const int code = run({words + 1, words + count});
    std::cout.flush();
    if (!std::cout) throw std::runtime_error("cannot write to standard output");
    return code;
  } catch (const magpie_tool::usage_error& wrong) {
    std::cerr << "magpie: " << wrong.what() << " (magpie --help lists what there is)\n";
    return magpie_tool::k_usage;
  } catch (const std::exception& failed) {
    std::cerr << "magpie: " << failed.what() << '\n';
    return magpie_tool::k_failed;
  }
}
