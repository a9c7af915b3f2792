# Makes target NAME for a library of headers. Its folder is linked into a folder of its own, because
# /usr/include as a whole has headers of this machine's processor.
function(use_headers name folder)
  if(TARGET ${name})
    return()
  endif()
  set(include ${CMAKE_BINARY_DIR}/headers)
  file(MAKE_DIRECTORY ${include})
  file(CREATE_LINK /usr/include/${folder} ${include}/${folder} SYMBOLIC)
  add_library(${name} INTERFACE IMPORTED GLOBAL)
  target_include_directories(${name} SYSTEM INTERFACE ${include})
endfunction()
