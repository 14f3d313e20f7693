# The man pages and the sample file of settings: the command itself writes them, from the tables that
# its flags and its help are made of, so that they cannot disagree.
set(pages ${PROJECT_BINARY_DIR}/pages)
add_custom_command(OUTPUT ${pages}/legwork.conf DEPENDS legwork-command cmake/WritePages.cmake
  COMMAND ${CMAKE_COMMAND} "-DCOMMAND=${legwork_launcher};$<TARGET_FILE:legwork-command>"
    -DFOLDER=${pages} -P ${PROJECT_SOURCE_DIR}/cmake/WritePages.cmake
  COMMENT "Writing man pages" VERBATIM)
add_custom_target(legwork-pages ALL DEPENDS ${pages}/legwork.conf)

install(DIRECTORY ${pages}/man DESTINATION ${CMAKE_INSTALL_DATAROOTDIR})
install(FILES ${pages}/legwork.conf DESTINATION ${CMAKE_INSTALL_DOCDIR})
