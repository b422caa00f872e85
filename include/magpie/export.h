// MAGPIE_API marks what the library exports. Everything else in it is hidden.
#pragma once

#define MAGPIE_API __attribute__((visibility("default")))
