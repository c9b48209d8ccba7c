# What built the extensions, as a module that `zephon doctor` shows. No path and no time is in it.
string(TOUPPER "${CMAKE_BUILD_TYPE}" _config)
string(STRIP "${CMAKE_CXX_FLAGS} ${CMAKE_CXX_FLAGS_${_config}} -ffp-contract=off" ZEPHON_FLAGS)
# Mappings of folders are about where it was built.
string(REGEX REPLACE " *-f[a-z]+-prefix-map=[^ ]+" "" ZEPHON_FLAGS "${ZEPHON_FLAGS}")
set(ZEPHON_TARGET "$ENV{ZEPHON_ZIG_TARGET}")
if(NOT ZEPHON_TARGET)
  set(ZEPHON_TARGET "${CMAKE_SYSTEM_PROCESSOR}-${CMAKE_SYSTEM_NAME}")
endif()
execute_process(
  COMMAND "${Python_EXECUTABLE}" -c "import Cython; print(Cython.__version__)"
  OUTPUT_VARIABLE ZEPHON_CYTHON
  OUTPUT_STRIP_TRAILING_WHITESPACE
  COMMAND_ERROR_IS_FATAL ANY)
configure_file("${CMAKE_CURRENT_LIST_DIR}/build_info.py.in" "${PROJECT_BINARY_DIR}/_build_info.py" @ONLY)
install(FILES "${PROJECT_BINARY_DIR}/_build_info.py" DESTINATION zephon/_native)
