// An echo server: `echo 127.0.0.1:7000`. Without an argument it serves itself, once.
#include <magpie/magpie.h>

#include <iostream>

using namespace magpie::net;

void serve(tcp_stream client) {
  char bytes[2048];
  std::error_code gone;
  while (const auto n = client.read(bytes, sizeof bytes, gone)) client.write(bytes, n, gone);
}

int main(int argc, char** argv) {
  magpie::run([&] {
    auto listener = tcp_listener::listen(argc > 1 ? argv[1] : "127.0.0.1:0");
    auto self = tcp_stream::connect(listener.local_address());
    self.write("hello");
    do magpie::go(serve, listener.accept()); while (argc > 1);
    char answer[5];
    std::cout << std::string_view(answer, self.read(answer, sizeof answer)) << '\n';
  });
}
