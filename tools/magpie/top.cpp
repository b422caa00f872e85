// top.cpp: `magpie top`, a running process in a terminal.

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <iostream>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <magpie/poll.h>
#include <magpie/runtime.h>
#include <magpie/select.h>

#include "observe/text.h"
#include "tools/magpie/command.h"
#include "tools/magpie/debug_client.h"
#include "tools/magpie/terminal.h"
#include "tools/magpie/top_view.h"

namespace magpie_tool {

namespace {

using seconds = std::chrono::duration<double>;
using magpie::clock;
using magpie::rt::printable_lines;

struct options {
  std::string address;
  bool once = false;
  seconds interval{1};
  std::string goroutine;  // to be dumped, instead of all else
};

options parse(const std::vector<std::string_view>& words) {
  options result;
  result.address = read_words(words, "address", [&](std::string_view word, const auto& value) {
    if (word == "--once") {
      result.once = true;
    } else if (word == "--interval") {
      const std::string text = value();
      const double number = number_from<double>(text).value_or(0);
      if (!(number >= 0.05) || number > 3600) {
        throw usage_error("\"" + text + "\" is no number of seconds from 0.05 on");
      }
      result.interval = seconds(number);
    } else if (word == "--goroutine") {
      result.goroutine = value();
    } else {
      return false;
    }
    return true;
  });
  return result;
}

json_value ask(const debug_client& server, const char* path) {
  const std::string text = server.get(path);
  try {
    return json_value::parse(text);
  } catch (const std::runtime_error&) {
    throw std::runtime_error("what listens at " + server.address() +
                             " is no magpie::debug::server");
  }
}

void print_once(const debug_client& server, const options& wishes) {
  const json_value before = ask(server, "/stats");
  magpie::this_goroutine::sleep_for(std::chrono::duration_cast<magpie::duration>(wishes.interval));
  const json_value now = ask(server, "/stats");
  std::cout << top_text(now, before, ask(server, "/sites"), {.columns = 0, .lines = 0});
}

constexpr char k_escape = '\x1b';
constexpr magpie::duration k_look_at_size = std::chrono::milliseconds(200);

// Of a key that comes as several characters: from an escape that is not alone.
std::size_t length_of_sequence(std::string_view typed) {
  if (typed[1] == 'O') return std::min<std::size_t>(3, typed.size());
  if (typed[1] != '[') return 2;
  std::size_t end = 2;
  while (end < typed.size() && (typed[end] < '@' || typed[end] > '~')) ++end;
  return std::min(end + 1, typed.size());
}

// The keys of some text view, for arrows and the like, which come as several characters.
std::string plain_keys(std::string_view typed) {
  constexpr std::pair<std::string_view, char> k_sequences[] = {
      {"\x1b[A", 'k'},  {"\x1bOA", 'k'}, {"\x1b[B", 'j'}, {"\x1bOB", 'j'}, {"\x1b[5~", 'b'},
      {"\x1b[6~", ' '}, {"\x1b[C", 'l'}, {"\x1bOC", 'l'}, {"\x1b[D", 'h'}, {"\x1bOD", 'h'}};
  std::string keys;
  while (!typed.empty()) {
    std::size_t length = 1;
    char key = typed[0];
    for (const auto& [sequence, meaning] : k_sequences) {
      if (!typed.starts_with(sequence)) continue;
      length = sequence.size();
      key = meaning;
    }
    // Of the others none means anything here, least of all what its single characters do.
    const bool unknown = length == 1 && key == k_escape && typed.size() > 1;
    if (!unknown) keys += key;
    typed.remove_prefix(unknown ? length_of_sequence(typed) : length);
  }
  return keys;
}

std::string without_tabs(std::string_view text) {
  std::string result;
  for (const char c : text) c == '\t' ? result += "    " : result += c;
  return result;
}

// Text that may be longer than the screen: begins at a line, moved by keys.
class reading {
 public:
  explicit reading(std::string_view text) : text_(without_tabs(text)) {}

  // False: back to the list.
  bool key(char c, int page) {
    if (c == 'q' || c == k_escape || c == 'd') return false;
    if (c == 'j' || c == '\n') ++first_;
    if (c == 'k') --first_;
    if (c == ' ') first_ += page;
    if (c == 'b') first_ -= page;
    if (c == 'l') shift_ += k_shift;
    if (c == 'h') shift_ -= std::min(shift_, k_shift);
    return true;
  }

  std::string shown(int columns, int lines) {
    std::vector<std::string_view> all;
    for (std::string_view rest = text_; !rest.empty();) {
      const std::size_t end = std::min(rest.find('\n'), rest.size());
      all.push_back(rest.substr(0, end));
      rest.remove_prefix(std::min(end + 1, rest.size()));
    }
    const int room = std::max(1, lines - 1);
    first_ = std::max(0, std::min(first_, static_cast<int>(all.size()) - room));
    std::string text;
    for (int i = first_; i < static_cast<int>(all.size()) && i < first_ + room; ++i) {
      const std::string_view line = all[static_cast<std::size_t>(i)];
      text += line.substr(std::min(shift_, line.size()), static_cast<std::size_t>(columns));
      text += '\n';
    }
    const std::string keys = " q back   arrows or hjkl: move   space b: a page";
    return text + keys.substr(0, static_cast<std::size_t>(columns));
  }

 private:
  std::string text_;
  static constexpr std::size_t k_shift = 20;
  int first_ = 0;
  std::size_t shift_ = 0;  // of what is left of the screen
};

class watching {
 public:
  watching(const debug_client& server, const options& wishes)
      : server_(server), interval_(wishes.interval) {}

  void run() {
    look();  // what is wrong from the start is said on a screen that stays
    const auto step = std::chrono::duration_cast<magpie::duration>(interval_);
    terminal screen;
    auto next = clock::now() + step;
    while (!over_) {
      draw(screen);
      bool same = true;
      while (same) {
        magpie::select(magpie::on_readable(STDIN_FILENO,
                                           [&] {
                                             same = false;
                                             typed(screen.typed());
                                           }),
                       magpie::on_deadline(std::min(next, clock::now() + k_look_at_size), [] {}));
        if (clock::now() >= next) {
          same = false;
          next = clock::now() + step;
          if (!paused_ && !text_) look_again();
        }
        same = same && !resized();
      }
    }
  }

 private:
  bool resized() const {
    int columns = 0, lines = 0;
    terminal::size(columns, lines);
    return columns != columns_ || lines != lines_;
  }

  void look() {
    json_value now = ask(server_, "/stats");
    before_ = std::exchange(now_, std::move(now));
    if (clock::now() < sites_due_) return;
    sites_ = ask(server_, "/sites");
    // To look at every goroutine takes long where there are many.
    sites_due_ = clock::now() + std::chrono::duration_cast<magpie::duration>(
                                    seconds(sites_["took"].number() * 20));
  }

  void look_again() {
    try {
      look();
      problem_.clear();
    } catch (const std::exception& failed) {
      problem_ = failed.what();
    }
  }

  void dump(const std::string& path) {
    try {
      text_.emplace(printable_lines(server_.get(path)));
    } catch (const std::exception& failed) {
      text_.emplace(failed.what());
    }
  }

  void typed(const std::string& keys) {
    if (keys.empty()) over_ = true;  // the terminal is gone
    for (const char c : plain_keys(keys)) key(c);
  }

  void key(char c) {
    int columns = 0, lines = 0;
    terminal::size(columns, lines);
    if (text_) {
      if (!text_->key(c, lines - 2)) text_.reset();
    } else if (asking_) {
      answer_key(c);
    } else if (c == 'q' || c == '\x04') {
      over_ = true;
    } else if (c == 'p') {
      paused_ = !paused_;
    } else if (c == 's') {
      order_ = static_cast<site_order>((static_cast<int>(order_) + 1) % 4);
    } else if (c == 'd') {
      asking_.emplace();
    } else if (c == 'a') {
      dump("/goroutines");
    }
  }

  void answer_key(char c) {
    if (c >= '0' && c <= '9') {
      *asking_ += c;
    } else if ((c == '\x7f' || c == '\b') && !asking_->empty()) {
      asking_->pop_back();
    } else if (c == '\n' || c == '\r') {
      const std::string id = *asking_;
      asking_.reset();
      if (!id.empty()) dump("/goroutines?id=" + id);
    } else if (c == k_escape || c == 'q') {
      asking_.reset();
    }
  }

  void draw(terminal& screen) {
    terminal::size(columns_, lines_);
    if (text_) return screen.show(text_->shown(columns_, lines_));
    const std::string all = top_text(
        now_, before_, sites_,
        {.order = order_, .columns = columns_, .lines = std::max(lines_ - 1, 1), .colours = true});
    screen.show(lines_ > 1 ? all + bottom().substr(0, static_cast<std::size_t>(columns_)) : all);
  }

  std::string bottom() const {
    if (asking_) return " dump goroutine number: " + *asking_ + "_   (Enter; Esc: none)";
    if (!problem_.empty()) return " trying again: " + problem_;
    return std::string(paused_ ? " PAUSED" : "") + " q quit   p " + (paused_ ? "go on" : "pause") +
           "   s sort (by " + std::string(name_of(order_)) + ")   d dump one   a dump all";
  }

  const debug_client& server_;
  const seconds interval_;
  json_value now_, before_, sites_;
  magpie::time_point sites_due_{};
  site_order order_ = site_order::count;
  bool paused_ = false, over_ = false;
  int columns_ = 0, lines_ = 0;  // as drawn
  std::string problem_;
  std::optional<std::string> asking_;
  std::optional<reading> text_;
};

}  // namespace

int top_command(const std::vector<std::string_view>& words) {
  const options wishes = parse(words);
  const debug_client server(wishes.address);
  magpie::run([&] {
    if (!wishes.goroutine.empty()) {
      std::cout << printable_lines(server.get("/goroutines?id=" + wishes.goroutine));
    } else if (wishes.once) {
      print_once(server, wishes);
    } else if (!terminal::is_there()) {
      throw std::runtime_error("this is no terminal; --once prints what there is to see");
    } else {
      watching(server, wishes).run();
    }
  });
  return 0;
}

}  // namespace magpie_tool
