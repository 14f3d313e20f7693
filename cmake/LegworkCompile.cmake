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
  set(legwork_sanitize -fsanitize=${LEGWORK_SANITIZE} -fno-sanitize-recover=all -fno-omit-frame-pointer)
  set(legwork_link_options -fsanitize=${LEGWORK_SANITIZE})
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
  target_compile_options(${target} PRIVATE -UNDEBUG -pthread ${legwork_warnings} ${legwork_sanitize})
  target_compile_definitions(${target} PRIVATE _GNU_SOURCE)
  get_target_property(type ${target} TYPE)
  if(NOT type STREQUAL "OBJECT_LIBRARY")
    target_link_options(${target} PRIVATE ${legwork_link_options})
  endif()
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
