# zephon_extension(zephon/_native/NAME.pyx): one stable-ABI extension NAME.
# zephon_cython_utility(): what Cython needs in each of them, once, as _cyutility.
#
# Cython is run as a module of the interpreter that builds, so that an
# environment that is not activated works too.
include(CheckLinkerFlag)

set(_zephon_cython_flags -3 --cplus)
if(ZEPHON_WERROR)
  list(APPEND _zephon_cython_flags --warning-errors)
endif()
set(_zephon_cython_utility zephon._native._cyutility)

# A module has one symbol that anybody may see. Nothing of a static library is re-exported
# beside another copy of it, and what nothing refers to is left out.
set(_zephon_exports "-Wl,--version-script=${CMAKE_CURRENT_LIST_DIR}/exports.map")
check_linker_flag(CXX "${_zephon_exports}" ZEPHON_HAVE_VERSION_SCRIPT)
check_linker_flag(CXX -Wl,--gc-sections ZEPHON_HAVE_GC_SECTIONS)

function(_zephon_module name cpp)
  python_add_library(${name} MODULE "${cpp}" ${ZEPHON_MODULE_SOURCES} WITH_SOABI USE_SABI ${SKBUILD_SABI_VERSION})
  target_compile_definitions(${name} PRIVATE CYTHON_LIMITED_API=1)
  # Checks around batch-sized calls: small is worth more than fast. zephon_core is not touched.
  target_compile_options(
    ${name} PRIVATE $<$<CONFIG:Release,RelWithDebInfo>:-O2> $<$<CONFIG:Release>:${ZEPHON_MODULE_OPTIONS}>)
  if(ZEPHON_HAVE_VERSION_SCRIPT)
    target_link_options(${name} PRIVATE "${_zephon_exports}")
  endif()
  if(ZEPHON_HAVE_GC_SECTIONS)
    target_compile_options(${name} PRIVATE -ffunction-sections -fdata-sections)
    target_link_options(${name} PRIVATE -Wl,--gc-sections)
  endif()
  install(TARGETS ${name} DESTINATION zephon/_native)
endfunction()

function(zephon_cython_utility)
  set(cpp "${CMAKE_CURRENT_BINARY_DIR}/_cyutility.cpp")
  add_custom_command(
    OUTPUT "${cpp}"
    COMMAND "${Python_EXECUTABLE}" -m cython -3 --cplus "--generate-shared=${cpp}"
    COMMENT "Cython _cyutility"
    VERBATIM)
  _zephon_module(_cyutility "${cpp}")
endfunction()

function(zephon_extension pyx)
  get_filename_component(name "${pyx}" NAME_WE)
  set(cpp "${CMAKE_CURRENT_BINARY_DIR}/${name}.cpp")
  # By a relative path: it is written into the module, which is to be the same from any folder.
  file(RELATIVE_PATH source "${PROJECT_SOURCE_DIR}" "${pyx}")
  add_custom_command(
    OUTPUT "${cpp}"
    COMMAND "${Python_EXECUTABLE}" -m cython ${_zephon_cython_flags}
            "--shared=${_zephon_cython_utility}" --depfile "${source}" --output-file "${cpp}"
    DEPENDS "${pyx}"
    DEPFILE "${cpp}.dep"
    WORKING_DIRECTORY "${PROJECT_SOURCE_DIR}"
    COMMENT "Cython ${name}.pyx"
    VERBATIM)
  _zephon_module(${name} "${cpp}")
  target_link_libraries(${name} PRIVATE zephon_core)
endfunction()
