// The next seconds as a trace in memory, for whoever asks the debug server.
#pragma once

#include <cstddef>
#include <string>

#include <magpie/detail/duration.h>
#include <magpie/net/socket.h>

namespace magpie::rt {

// Until then, or until the client is gone. Ends early when it has `most` bytes, as a whole trace
// of the time so far; what happened since it was last looked at comes on top of them. Throws
// misuse when a trace is being written already, and std::system_error when memory does not suffice.
std::string record_trace(net::stream& client, time_point end, std::size_t most);

}  // namespace magpie::rt
