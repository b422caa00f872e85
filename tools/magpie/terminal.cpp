#include "tools/magpie/terminal.h"

#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#include <csignal>
#include <stdexcept>

namespace magpie_tool {

namespace {

constexpr std::string_view k_begin = "\x1b[?1049h\x1b[?25l";
constexpr std::string_view k_end = "\x1b[?25h\x1b[?1049l";
constexpr std::string_view k_home = "\x1b[H";
constexpr std::string_view k_clear_line = "\x1b[K";
constexpr std::string_view k_clear_rest = "\x1b[J";

termios g_before;
volatile std::sig_atomic_t g_changed = 0;

void put(std::string_view text) {
  while (!text.empty()) {
    const ssize_t written = write(STDOUT_FILENO, text.data(), text.size());
    if (written <= 0) return;
    text.remove_prefix(static_cast<std::size_t>(written));
  }
}

// Signal-safe.
void restore() {
  if (!g_changed) return;
  g_changed = 0;
  put(k_end);
  tcsetattr(STDIN_FILENO, TCSANOW, &g_before);
}

void restore_and_die(int number) {
  restore();
  signal(number, SIG_DFL);
  raise(number);
}

}  // namespace

terminal::terminal() {
  if (tcgetattr(STDIN_FILENO, &g_before) != 0) throw std::runtime_error("this is no terminal");
  g_changed = 1;
  for (const int number : {SIGINT, SIGTERM, SIGHUP, SIGABRT, SIGSEGV}) {
    signal(number, restore_and_die);
  }
  termios raw = g_before;
  raw.c_lflag &= ~static_cast<tcflag_t>(ICANON | ECHO);
  raw.c_cc[VMIN] = 0;
  raw.c_cc[VTIME] = 0;
  tcsetattr(STDIN_FILENO, TCSANOW, &raw);
  put(k_begin);
}

terminal::~terminal() { restore(); }

bool terminal::is_there() { return isatty(STDIN_FILENO) != 0 && isatty(STDOUT_FILENO) != 0; }

void terminal::size(int& columns, int& lines) {
  winsize found{};
  const bool known = ioctl(STDOUT_FILENO, TIOCGWINSZ, &found) == 0 && found.ws_col > 0;
  columns = known ? found.ws_col : 80;
  lines = known ? found.ws_row : 24;
}

void terminal::show(std::string_view text) {
  std::string all(k_home);
  for (const char c : text) {
    if (c == '\n') all += k_clear_line;
    all += c;
  }
  all += k_clear_line;
  all += k_clear_rest;
  put(all);
}

std::string terminal::typed() {
  char keys[64];
  const ssize_t got = read(STDIN_FILENO, keys, sizeof keys);
  return got > 0 ? std::string(keys, static_cast<std::size_t>(got)) : std::string();
}

}  // namespace magpie_tool
