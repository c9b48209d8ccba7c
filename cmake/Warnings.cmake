# Warnings for code written here; generated code is built without them.
function(zephon_warnings target)
  target_compile_options(${target} PRIVATE
    -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wsign-conversion -Wdouble-promotion)
  if(ZEPHON_WERROR)
    target_compile_options(${target} PRIVATE -Werror)
  endif()
endfunction()
