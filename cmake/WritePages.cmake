# cmake -DCOMMAND=... -DFOLDER=... -P WritePages.cmake: FOLDER/man/man1/legwork.1 and the other pages, and
# FOLDER/legwork.conf, the sample.
cmake_policy(VERSION 3.25)

function(ask output)
  execute_process(COMMAND ${COMMAND} help ${ARGN} OUTPUT_VARIABLE said COMMAND_ERROR_IS_FATAL ANY)
  set(${output} ${said} PARENT_SCOPE)
endfunction()

function(write_what path)
  execute_process(COMMAND ${COMMAND} help ${ARGN} OUTPUT_FILE ${path} COMMAND_ERROR_IS_FATAL ANY)
endfunction()

file(REMOVE_RECURSE ${FOLDER}/man)
ask(names --pages)
string(STRIP "${names}" names)
string(REPLACE "\n" ";" names "${names}")
foreach(name IN LISTS names)
  string(REGEX REPLACE ".*\\." "" section ${name})
  file(MAKE_DIRECTORY ${FOLDER}/man/man${section})
  write_what(${FOLDER}/man/man${section}/${name} --man ${name})
endforeach()
write_what(${FOLDER}/legwork.conf --sample)
