// From addresses to frames that a reader of the trace understands. The recorder's: allocates.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "trace/batch.h"

namespace magpie::rt::trace {

// All texts of one generation, with their ids.
class generation_texts {
 public:
  generation_texts();
  // One that events use already.
  void note(std::uint64_t id, std::string_view);
  // A new one, or the same that was asked for before. After all calls of note().
  std::uint64_t add(const std::string&);
  std::string_view at(std::uint64_t id) const;

  template <class Visit>  // (id, string_view)
  void visit(Visit v) const {
    for (std::size_t id = 1; id < texts_.size(); ++id) v(id, std::string_view(texts_[id]));
  }

 private:
  std::vector<std::string> texts_;
  std::unordered_map<std::string, std::uint64_t> added_;
};

class frame_names {
 public:
  // All frames of a generation, before any of them is resolved: names are looked up together.
  void want(std::span<const std::uint64_t> words);
  void look_up();

  // Innermost first, as they came; without the runtime's own frames at both ends. Glue counts as
  // the user's where nothing else is: see hidden_frames in observe/goroutine_text.h.
  std::vector<frame> resolve(std::span<const std::uint64_t> words, generation_texts&);

 private:
  struct place {
    std::string function, file;
    std::uint64_t line = 0;
    bool is_scheduler = false, is_glue = false;
  };

  std::unordered_map<std::uint64_t, place> places_;
  std::vector<std::uint64_t> wanted_;  // without a name so far
};

}  // namespace magpie::rt::trace
