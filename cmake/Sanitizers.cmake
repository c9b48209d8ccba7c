# -DZEPHON_SANITIZE="address;undefined" or "thread", for every target alike.
function(zephon_sanitize target)
  if(NOT ZEPHON_SANITIZE)
    return()
  endif()
  string(REPLACE ";" "," kinds "${ZEPHON_SANITIZE}")
  target_compile_options(${target} PUBLIC -fsanitize=${kinds} -fno-sanitize-recover=all -fno-omit-frame-pointer -g)
  target_link_options(${target} PUBLIC -fsanitize=${kinds})
endfunction()
