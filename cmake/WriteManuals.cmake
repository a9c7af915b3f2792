# Writes the manual pages of a program and of its commands, and completions for three shells, as the program gives them.
#
#   cmake -DPROGRAM=build/release/bin/reprise -DFOLDER=share -P cmake/WriteManuals.cmake

function(write_output file)
  execute_process(COMMAND ${PROGRAM} ${ARGN} OUTPUT_VARIABLE text COMMAND_ERROR_IS_FATAL ANY)
  file(WRITE ${FOLDER}/${file} "${text}")
endfunction()

# The page of `reprise WORDS`, and those of the commands that its help lists before its options.
function(write_manuals)
  list(JOIN ARGN - name)
  string(REGEX REPLACE "^(.+)$" "-\\1" suffix "${name}")
  write_output(man/man1/reprise${suffix}.1 man ${ARGN})
  execute_process(COMMAND ${PROGRAM} ${ARGN} --help OUTPUT_VARIABLE help COMMAND_ERROR_IS_FATAL ANY)
  string(REGEX REPLACE "\n(Option groups|[A-Z][A-Za-z ]*:\n).*" "" help "${help}")
  string(REGEX MATCHALL "\n  [a-z][a-z-]* +[^ \n]" lines "${help}")
  foreach(line ${lines})
    string(REGEX REPLACE "^\n  ([a-z-]+) .*" "\\1" command "${line}")
    write_manuals(${ARGN} ${command})
  endforeach()
endfunction()

write_manuals()
write_output(bash-completion/completions/reprise completion bash)
write_output(zsh/site-functions/_reprise completion zsh)
write_output(fish/vendor_completions.d/reprise.fish completion fish)
