# Run by the build: makes one C file of a folder of .sql files, each a string lw__sql_<name>.
#   cmake -DFOLDER=src/store/sqlite/sql -DNAMES='begin.sql commit.sql' -DHEADER=store/sqlite/sql.h
#     -DOUTPUT=sql.c -P EmbedSql.cmake
# HEADER declares them, and says in LW__SQL_FILES how many it knows.

separate_arguments(files NATIVE_COMMAND "${NAMES}")
list(LENGTH files count)

set(text "/* Made by cmake/EmbedSql.cmake. */\n#include \"${HEADER}\"\n\n")
string(APPEND text "#pragma GCC diagnostic ignored \"-Woverlength-strings\"\n\n")
string(APPEND text "_Static_assert(LW__SQL_FILES == ${count}, \"${HEADER} names every file of sql/\");\n")
foreach(file IN LISTS files)
  cmake_path(GET file STEM name)
  file(READ ${FOLDER}/${file} sql)
  string(REPLACE "\\" "\\\\" sql "${sql}")
  string(REPLACE "\"" "\\\"" sql "${sql}")
  string(REPLACE "\n" "\\n\"\n    \"" sql "${sql}")
  string(APPEND text "\nconst char lw__sql_${name}[] =\n    \"${sql}\";\n")
endforeach()
file(WRITE ${OUTPUT} "${text}")
