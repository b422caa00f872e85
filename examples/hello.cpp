// What magpie sees of this machine.
#include <magpie/magpie.h>

#include <iostream>

int main() {
  const magpie::time_point start = magpie::clock::now();
  std::cout << "magpie " << magpie::version() << '\n';
  std::cout << "CPUs this process may use: " << magpie::cpu_count() << '\n';
  const magpie::duration took = magpie::clock::now() - start;
  std::cout << "found out in " << took.count() << " ns\n";
}
