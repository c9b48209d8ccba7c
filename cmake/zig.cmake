# A toolchain file: zig from the package ziglang as C++ compiler, for the glibc and the CPU that
# ZEPHON_ZIG_TARGET names, such as aarch64-linux-gnu.2.17. It links its libc++ statically.
set(ZEPHON_ZIG_TARGET "$ENV{ZEPHON_ZIG_TARGET}")
if(NOT ZEPHON_ZIG_TARGET MATCHES "^([a-z0-9_]+)-linux-gnu[0-9.]*$")
  message(FATAL_ERROR "the environment variable ZEPHON_ZIG_TARGET is '${ZEPHON_ZIG_TARGET}', "
                      "expected one like x86_64-linux-gnu.2.17")
endif()
set(_processor "${CMAKE_MATCH_1}")

# Named only for another CPU: CMake then knows that it cannot run what it builds.
if(NOT _processor STREQUAL CMAKE_HOST_SYSTEM_PROCESSOR)
  set(CMAKE_SYSTEM_NAME Linux)
  set(CMAKE_SYSTEM_PROCESSOR "${_processor}")
endif()

set(_zig "$ENV{ZEPHON_ZIG}") # the program itself
set(CMAKE_CXX_COMPILER "${_zig}" c++ -target "${ZEPHON_ZIG_TARGET}")
# An archiver cannot be given with its subcommand, but the rules that call it can.
set(CMAKE_CXX_ARCHIVE_CREATE "\"${_zig}\" ar qcD <TARGET> <LINK_FLAGS> <OBJECTS>")
set(CMAKE_CXX_ARCHIVE_APPEND "\"${_zig}\" ar qD <TARGET> <LINK_FLAGS> <OBJECTS>")
set(CMAKE_CXX_ARCHIVE_FINISH "\"${_zig}\" ranlib -D <TARGET>")

# What a wheel carries of Cython is half of its code: -Oz makes that a tenth smaller.
set(ZEPHON_MODULE_OPTIONS -Oz)
set(CMAKE_MODULE_LINKER_FLAGS_INIT "-Wl,--hash-style=gnu") # every glibc since 2006 reads it
set(ZEPHON_MODULE_SOURCES "${CMAKE_CURRENT_LIST_DIR}/demangle.cpp")
