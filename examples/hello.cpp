// A thousand goroutines, and the sum of what they found.
#include <magpie/magpie.h>

#include <iostream>
#include <vector>

int main() {
  const long sum = magpie::run([] {
    std::vector<magpie::future<long>> parts;
    for (long i = 1; i <= 1000; ++i) parts.push_back(magpie::async([i] { return i * i; }));
    long total = 0;
    for (auto& part : parts) total += part.get();
    return total;
  });
  std::cout << "1 + 4 + 9 + ... + 1000000 = " << sum << '\n';
}
