# What `make install` puts where: headers, the libraries, the CMake package and the pkg-config files.
include(CMakePackageConfigHelpers)

set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/legwork)

install(DIRECTORY include/legwork DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} FILES_MATCHING PATTERN "*.h")
set(libraries legwork-core)
if(LEGWORK_SQLITE)
  list(APPEND libraries legwork)
endif()
foreach(library IN LISTS libraries)
  install(TARGETS ${library} ${library}-static EXPORT legwork-targets)
endforeach()
install(EXPORT legwork-targets NAMESPACE legwork:: DESTINATION ${package_dir})

configure_file(cmake/legwork-config.cmake.in legwork-config.cmake @ONLY)
write_basic_package_version_file(legwork-config-version.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/legwork-config.cmake
  ${PROJECT_BINARY_DIR}/legwork-config-version.cmake DESTINATION ${package_dir})

# The prefix in the .pc file is relative to the file itself, so that an installed tree can be moved.
file(RELATIVE_PATH prefix_from_pc
  ${CMAKE_INSTALL_FULL_LIBDIR}/pkgconfig ${CMAKE_INSTALL_PREFIX})
string(REGEX REPLACE "/$" "" prefix_from_pc ${prefix_from_pc})
foreach(library IN LISTS libraries)
  configure_file(cmake/${library}.pc.in ${library}.pc @ONLY)
  install(FILES ${PROJECT_BINARY_DIR}/${library}.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
endforeach()
