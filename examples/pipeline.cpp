// A pipeline: three stages joined by channels, each a goroutine that ends when its input does.
#include <magpie/magpie.h>

#include <iostream>
#include <sstream>
#include <string>

// Each stage starts its goroutine and returns the end of the channel that the next one reads.
magpie::receiver<std::string> words_of(std::string text) {
  magpie::channel<std::string> words(4);
  magpie::go([words, text = std::move(text)] {
    std::istringstream in(text);
    for (std::string word; in >> word;) words.send(word);
    words.close();
  });
  return words;
}

magpie::receiver<std::string> longer_than(std::size_t length, magpie::receiver<std::string> words) {
  magpie::channel<std::string> kept(4);
  magpie::go([=] {
    for (const std::string& word : words) {
      if (word.size() > length) kept.send(word);
    }
    kept.close();
  });
  return kept;
}

magpie::receiver<std::string> backwards(magpie::receiver<std::string> words) {
  magpie::channel<std::string> turned(4);
  magpie::go([=] {
    for (const std::string& word : words) turned.send({word.rbegin(), word.rend()});
    turned.close();
  });
  return turned;
}

int main() {
  magpie::run([] {
    const auto words = words_of("one for sorrow two for joy three for a girl four for a boy");
    for (const std::string& word : backwards(longer_than(3, words))) std::cout << word << '\n';
  });
}
