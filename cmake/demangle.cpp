// In a library that zig links, the standard library is linked in, and one function of it is a
// third of it: the demangler, with which an uncaught exception would print the name of its type.
// Here it is one that does not know any name; the mangled one is printed then.
#include <cstddef>

extern "C" char* __cxa_demangle(const char* /*name*/, char* /*buffer*/, std::size_t* /*length*/,
                                int* status) {
  constexpr int not_a_valid_name = -2;
  if (status != nullptr) *status = not_a_valid_name;
  return nullptr;
}
