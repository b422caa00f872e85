// trace.cpp: the commands below `magpie trace`.

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <optional>
#include <string>
#include <vector>

#include "observe/text.h"
#include "observe/trace_reader.h"
#include "observe/trace_summary.h"
#include "tools/magpie/chrome.h"
#include "tools/magpie/command.h"
#include "tools/magpie/page.h"
#include "tools/magpie/perfetto.h"
#include "tools/magpie/view.h"

namespace magpie_tool {

namespace {

namespace rt = magpie::rt;

struct options {
  std::string file;
  std::string to;
  std::string out;
  std::uint16_t port = 0;
  bool browser = true;
};

using known_options = std::array<std::string_view, 2>;  // of a command

options parse(const std::vector<std::string_view>& words, const known_options& known) {
  options result;
  result.file = read_words(words, "file", [&](std::string_view word, const auto& value) {
    if (std::find(known.begin(), known.end(), word) == known.end()) return false;
    if (word == "--to") {
      result.to = value();
    } else if (word == "-o") {
      result.out = value();
    } else if (word == "--port") {
      const std::string text = value();
      const auto port = number_from<std::uint16_t>(text);
      if (!port) throw usage_error("\"" + text + "\" is not a port");
      result.port = *port;
    } else {
      result.browser = false;  // --no-browser
    }
    return true;
  });
  return result;
}

// What the system said last.
std::string why() { return std::string(": ") + std::strerror(errno); }

std::vector<std::uint8_t> read_file(const std::string& name) {
  std::error_code none;
  if (std::filesystem::is_directory(name, none)) {
    throw std::runtime_error(name + " is a directory");
  }
  std::ifstream in(name, std::ios::binary);
  if (!in) throw std::runtime_error("cannot open " + name + why());
  std::vector<std::uint8_t> bytes;
  constexpr std::size_t k_step = std::size_t{1} << 20;
  while (in) {
    const std::size_t before = bytes.size();
    bytes.resize(before + k_step);
    in.read(reinterpret_cast<char*>(bytes.data() + before), k_step);
    bytes.resize(before + static_cast<std::size_t>(in.gcount()));
  }
  if (in.bad()) throw std::runtime_error("cannot read " + name);
  return bytes;
}

// Says what is wrong with the file, if anything, and how much of it was good. The words may have
// names from the file in them.
int verdict(const options& chosen, const rt::trace_reader& reader, std::uint64_t events) {
  const rt::trace_error* const error = reader.error();
  if (error == nullptr && reader.generations() == 0) {
    std::cerr
        << chosen.file
        << ": nothing in it: the process ended before the first second was written, or one"
           " that it started has overwritten the file (%p in MAGPIE_TRACE keeps them apart)\n";
    return k_failed;
  }
  if (error == nullptr) return 0;
  const std::string what = rt::printable(error->what);
  if (error->offset == 0) {  // no trace at all
    std::cerr << chosen.file << ": " << what << '\n';
    return k_failed;
  }
  if (error->cut) {
    std::cerr << chosen.file << ": the end is missing: the file is cut at byte " << error->offset
              << ", as when a process is killed while it writes (" << what << ')';
  } else {
    std::cerr << chosen.file << ": broken at byte " << error->offset << ": " << what;
  }
  std::cerr << "; before that, " << (events > 0 ? std::to_string(events) : std::string("no"))
            << " good events\n";
  return k_failed;
}

std::uint64_t count_events(rt::trace_reader& reader) {
  std::uint64_t events = 0;
  for (rt::trace_event event; reader.next(event);) ++events;
  return events;
}

// Before the file goes into a page, which shows as much of it as is good.
struct preview {
  std::uint64_t events = 0;
  int code = 0;  // a cut file is no failure if there is something to show
};
preview read_for_page(const options& chosen, const std::vector<std::uint8_t>& bytes) {
  rt::trace_reader reader(bytes);
  preview seen;
  seen.events = count_events(reader);
  seen.code = verdict(chosen, reader, seen.events);
  if (seen.events > 0 && reader.error() != nullptr && reader.error()->cut) seen.code = 0;
  return seen;
}

int check(const options& chosen) {
  const std::vector<std::uint8_t> bytes = read_file(chosen.file);
  rt::trace_reader reader(bytes);
  const std::uint64_t events = count_events(reader);
  const int code = verdict(chosen, reader, events);
  if (code == 0) {
    std::cout << chosen.file << ": ok: " << events << " events in " << reader.generations()
              << (reader.generations() == 1 ? " generation" : " generations") << ", version go 1."
              << static_cast<int>(reader.version()) << '\n';
  }
  return code;
}

int summary(const options& chosen) {
  const std::vector<std::uint8_t> bytes = read_file(chosen.file);
  rt::trace_reader reader(bytes);
  rt::trace_summary numbers(reader);
  for (rt::trace_event event; reader.next(event);) numbers.add(event);
  numbers.finish();
  if (numbers.events() > 0) numbers.print(std::cout);
  std::cout.flush();
  return verdict(chosen, reader, numbers.events());
}

std::string output_name(const options& chosen, std::string_view ending) {
  std::error_code none;
  if (std::filesystem::equivalent(chosen.file, chosen.out, none)) {
    throw std::runtime_error(chosen.out + " is the trace itself");
  }
  if (!chosen.out.empty()) return chosen.out;
  std::filesystem::path name(chosen.file);
  name.replace_extension(ending);
  if (name == chosen.file) name += ending;
  return name.string();
}

// Calls `write` with the output stream, and says where it went. Only the owner may read a file,
// also where there was such a file before; a device or a pipe is not ours to change.
template <class Write>
void write_output(const std::string& name, Write write) {
  if (name == "-") {
    write(std::cout);
    return;
  }
  std::ofstream out(name, std::ios::binary | std::ios::trunc);
  if (!out) throw std::runtime_error("cannot write " + name + why());
  if (std::filesystem::is_regular_file(name)) {
    std::filesystem::permissions(
        name, std::filesystem::perms::owner_read | std::filesystem::perms::owner_write);
  }
  write(out);
  out.close();
  if (!out) throw std::runtime_error("cannot write " + name);
  std::cout << name << '\n';
}

// A converter is fed with every event and writes what it makes of them.
template <class Converter>
int convert_events(const options& chosen, std::string_view ending) {
  const std::vector<std::uint8_t> bytes = read_file(chosen.file);
  rt::trace_reader reader(bytes);
  std::uint64_t events = 0;
  rt::trace_event event;
  bool more = reader.next(event);
  if (more) {
    write_output(output_name(chosen, ending), [&](std::ostream& out) {
      Converter converter(reader, out);
      for (; more; more = reader.next(event)) {
        converter.add(event);
        ++events;
      }
      converter.finish();
    });
  }
  return verdict(chosen, reader, events);
}

int html(const options& chosen) {
  const std::vector<std::uint8_t> bytes = read_file(chosen.file);
  const std::string name = std::filesystem::path(chosen.file).filename().string();
  write_output(output_name(chosen, ".html"),
               [&](std::ostream& out) { write_page(out, name, bytes); });
  return read_for_page(chosen, bytes).code;
}

int convert(const options& chosen) {
  if (chosen.to == "chrome") return convert_events<chrome_converter>(chosen, ".json");
  if (chosen.to == "perfetto") {
    return convert_events<perfetto_converter>(chosen, ".perfetto-trace");
  }
  if (chosen.to == "html") return html(chosen);
  if (chosen.to.empty()) throw usage_error("convert to what? --to chrome, perfetto or html");
  throw usage_error("there is no --to " + chosen.to + ", but chrome, perfetto and html");
}

int view(const options& chosen) {
  view_settings settings;
  settings.name = std::filesystem::path(chosen.file).filename().string();
  settings.bytes = read_file(chosen.file);
  settings.port = chosen.port;
  settings.browser = chosen.browser;
  const preview seen = read_for_page(chosen, settings.bytes);
  if (seen.events == 0 && seen.code != 0) return seen.code;  // a page would show nothing
  return serve_view(settings);
}

}  // namespace

int trace_command(const std::vector<std::string_view>& words) {
  struct command {
    std::string_view name;
    int (*run)(const options&);
    known_options its_options;
  };
  constexpr command k_commands[] = {{"check", check, {}},
                                    {"summary", summary, {}},
                                    {"view", view, {"--port", "--no-browser"}},
                                    {"convert", convert, {"--to", "-o"}},
                                    {"html", html, {"-o"}}};
  if (words.empty()) throw usage_error("trace: check, summary, view, html or convert?");
  for (const command& each : k_commands) {
    if (each.name == words[0]) {
      return each.run(parse({words.begin() + 1, words.end()}, each.its_options));
    }
  }
  throw usage_error("there is no command \"trace " + std::string(words[0]) + "\"");
}

}  // namespace magpie_tool
