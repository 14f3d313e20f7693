# How every target of the project is compiled, and which sources belong to it.

# Variants of one duty are files of their own, named <duty>_<platform>.c; the build takes one of
# them. LEGWORK_PLATFORM=posix builds the portable ones on Linux too, so that they can be tested.
if(CMAKE_SYSTEM_NAME STREQUAL "Linux")
  set(default_platform linux)
else()
  set(default_platform posix)
endif()
set(LEGWORK_PLATFORM ${default_platform} CACHE STRING "Which variants to build: linux or posix")
set_property(CACHE LEGWORK_PLATFORM PROPERTY STRINGS linux posix)

set(legwork_warnings
  -Wall -Wextra -Wpedantic -Wshadow -Wundef -Wvla -Wformat=2 -Wpointer-arith -Wwrite-strings
  -Wstrict-prototypes -Wmissing-prototypes -Wold-style-definition
  $<$<C_COMPILER_ID:Clang>:-Wthread-safety>
  $<$<BOOL:${LEGWORK_WERROR}>:-Werror>)

if(LEGWORK_SANITIZE)
  # -O1: half the time to compile under gcc's address sanitizer, and stacks that can be read.
  set(legwork_sanitize -fsanitize=${LEGWORK_SANITIZE} -fno-sanitize-recover=all -fno-omit-frame-pointer -O1)
  set(legwork_link_options -fsanitize=${LEGWORK_SANITIZE})
  # Every test program has the sanitizer in it: gold links it in two thirds of the time.
  include(CheckLinkerFlag)
  check_linker_flag(C -fuse-ld=gold legwork_has_gold)
  if(legwork_has_gold)
    list(APPEND legwork_link_options -fuse-ld=gold)
  endif()
endif()

# gcc for x86 clears a struct of some hundred bytes with `rep stos`, whose start takes longer than the
# stores (bench E2 486 -> 453 ns a task, E3 738 -> 703, E8 252 -> 228).
include(CheckCCompilerFlag)
set(clear_by_stores -mmemset-strategy=vector_loop:1024:noalign,libcall:-1:noalign)
check_c_compiler_flag(${clear_by_stores} legwork_can_clear_by_stores)
if(legwork_can_clear_by_stores)
  set(legwork_tuning ${clear_by_stores})
endif()

# legwork_layer_sources(<variable> <folder of src>...): the .c files of these layers.
function(legwork_layer_sources variable)
  set(sources)
  foreach(layer IN LISTS ARGN)
    file(GLOB files CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/src/${layer}/*.c)
    list(APPEND sources ${files})
  endforeach()
  foreach(platform linux posix)
    if(NOT platform STREQUAL LEGWORK_PLATFORM)
      list(FILTER sources EXCLUDE REGEX "_${platform}\\.c$")
    endif()
  endforeach()
  set(${variable} ${sources} PARENT_SCOPE)
endfunction()

# legwork_compile(<target>): the language, warnings and sanitizers of the project's own code.
function(legwork_compile target)
  set_target_properties(${target} PROPERTIES
    C_STANDARD 11 C_STANDARD_REQUIRED ON C_EXTENSIONS ON C_VISIBILITY_PRESET hidden)
  # Asserts are part of the program: they stay on in every build type.
  target_compile_options(${target} PRIVATE -UNDEBUG -pthread ${legwork_warnings} ${legwork_tuning}
    ${legwork_sanitize})
  target_compile_definitions(${target} PRIVATE _GNU_SOURCE)
  get_target_property(type ${target} TYPE)
  if(NOT type STREQUAL "OBJECT_LIBRARY")
    target_link_options(${target} PRIVATE ${legwork_link_options})
  endif()
endfunction()

# legwork_objects(<target> <source>...): compiled once, for a shared and a static library.
function(legwork_objects target)
  add_library(${target} OBJECT ${ARGN})
  legwork_compile(${target})
  set_target_properties(${target} PROPERTIES POSITION_INDEPENDENT_CODE ON)
  target_include_directories(${target} PRIVATE include src)
endfunction()

# legwork_library(<name> <exported name> <objects>...): lib<name>, shared (target <name>) and static
# (<name>-static).
function(legwork_library name exported)
  add_library(${name} SHARED)
  add_library(${name}-static STATIC)
  set_target_properties(${name} PROPERTIES EXPORT_NAME ${exported}
    VERSION ${PROJECT_VERSION} SOVERSION ${PROJECT_VERSION_MAJOR})
  set_target_properties(${name}-static PROPERTIES EXPORT_NAME ${exported}-static OUTPUT_NAME ${name})
  foreach(target ${name} ${name}-static)
    get_target_property(alias ${target} EXPORT_NAME)
    add_library(legwork::${alias} ALIAS ${target})
    foreach(objects IN LISTS ARGN)
      target_sources(${target} PRIVATE $<TARGET_OBJECTS:${objects}>)
    endforeach()
    target_include_directories(${target} PUBLIC
      $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include> $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
    target_link_libraries(${target} PUBLIC Threads::Threads)
    target_link_options(${target} PRIVATE ${legwork_link_options})
    set_target_properties(${target} PROPERTIES LINKER_LANGUAGE C)
  endforeach()
endfunction()

# legwork_embed_sql(<variable> <folder of src>): the C file made of the folder's sql/*.sql.
function(legwork_embed_sql variable folder)
  set(sql ${PROJECT_SOURCE_DIR}/src/${folder}/sql)
  set(output ${PROJECT_BINARY_DIR}/${folder}/sql.c)
  file(GLOB files CONFIGURE_DEPENDS ${sql}/*.sql)
  list(TRANSFORM files REPLACE ".*/" "" OUTPUT_VARIABLE names)
  list(JOIN names " " names) # in the command, so that a file that goes away makes it run again
  file(MAKE_DIRECTORY ${PROJECT_BINARY_DIR}/${folder})
  add_custom_command(OUTPUT ${output} DEPENDS ${files} ${PROJECT_SOURCE_DIR}/cmake/EmbedSql.cmake
    COMMAND ${CMAKE_COMMAND} -DFOLDER=${sql} -DNAMES=${names} -DHEADER=${folder}/sql.h
      -DOUTPUT=${output} -P ${PROJECT_SOURCE_DIR}/cmake/EmbedSql.cmake
    COMMENT "Embedding src/${folder}/sql" VERBATIM)
  set(${variable} ${output} PARENT_SCOPE)
endfunction()

# legwork_launcher: what sanitized programs are started with. The sanitizers of gcc 12 and clang 14
# cannot map their shadow memory where the kernel randomises more than 28 bits of an address
# (vm.mmap_rnd_bits is 32 in later kernels); without randomisation they always can. Containers may
# forbid to switch it off, and then it is left as it is.
set(legwork_launcher)
if(LEGWORK_SANITIZE)
  execute_process(COMMAND setarch -R true RESULT_VARIABLE refused OUTPUT_QUIET ERROR_QUIET)
  if(refused EQUAL 0)
    set(legwork_launcher setarch -R)
  endif()
endif()
