// Anything may be in a file: the reader, and everything that is made of what it reads, must say
// what is wrong with it and nothing else. `make fuzz` runs this for a while.

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <ostream>
#include <span>
#include <streambuf>

#include "observe/trace_reader.h"
#include "observe/trace_summary.h"
#include "tools/magpie/chrome.h"
#include "tools/magpie/perfetto.h"

namespace {

class nowhere : public std::streambuf {
  int overflow(int c) override { return c; }
  std::streamsize xsputn(const char*, std::streamsize size) override { return size; }
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  namespace rt = magpie::rt;
  nowhere buffer;
  std::ostream out(&buffer);
  rt::trace_reader reader(std::span(data, size));
  rt::trace_summary summary(reader);
  magpie_tool::chrome_converter chrome(reader, out);
  magpie_tool::perfetto_converter perfetto(reader, out);
  std::uint64_t last = 0;
  for (rt::trace_event event; reader.next(event);) {
    if (event.time <= last && last != ~std::uint64_t{0}) std::abort();
    last = event.time;
    summary.add(event);
    chrome.add(event);
    perfetto.add(event);
  }
  summary.finish();
  chrome.finish();
  perfetto.finish();
  if (summary.events() > 0) summary.print(out);
  if (reader.error() != nullptr && reader.error()->offset > size) std::abort();
  return 0;
}
