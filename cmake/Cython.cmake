# zephon_extension(zephon/_native/NAME.pyx): one stable-ABI extension NAME.
#
# Cython is run as a module of the interpreter that builds, so that an
# environment that is not activated works too.
set(_zephon_cython_flags -3 --cplus)
if(ZEPHON_WERROR)
  list(APPEND _zephon_cython_flags --warning-errors)
endif()

function(zephon_extension pyx)
  get_filename_component(name "${pyx}" NAME_WE)
  set(cpp "${CMAKE_CURRENT_BINARY_DIR}/${name}.cpp")
  add_custom_command(
    OUTPUT "${cpp}"
    COMMAND "${Python_EXECUTABLE}" -m cython ${_zephon_cython_flags}
            --depfile "${pyx}" --output-file "${cpp}"
    DEPENDS "${pyx}"
    DEPFILE "${cpp}.dep"
    COMMENT "Cython ${name}.pyx"
    VERBATIM)
  python_add_library(${name} MODULE "${cpp}" WITH_SOABI USE_SABI ${SKBUILD_SABI_VERSION})
  target_compile_definitions(${name} PRIVATE CYTHON_LIMITED_API=1)
  target_link_libraries(${name} PRIVATE zephon_core)
  # Nothing of a static library is re-exported beside another copy of it.
  target_link_options(${name} PRIVATE -Wl,--exclude-libs,ALL)
  install(TARGETS ${name} DESTINATION zephon/_native)
endfunction()
