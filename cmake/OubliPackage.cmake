# `cpack` in the build folder makes a Debian package: program, library, public headers, the scripts
# behind get-data and get-runtime, man pages and completions. tests/package.sh installs it.
install(CODE "
  execute_process(COMMAND \"${PROJECT_SOURCE_DIR}/tools/make-manual\" \"$<TARGET_FILE:oubli_program>\"
                          \"${CMAKE_BINARY_DIR}/manual\" COMMAND_ERROR_IS_FATAL ANY)")
install(DIRECTORY ${CMAKE_BINARY_DIR}/manual/man1 DESTINATION ${CMAKE_INSTALL_MANDIR})
install(FILES ${CMAKE_BINARY_DIR}/manual/oubli.bash RENAME oubli
        DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions)
install(FILES ${CMAKE_BINARY_DIR}/manual/_oubli
        DESTINATION ${CMAKE_INSTALL_DATADIR}/zsh/vendor-completions)
install(FILES LICENSE README.md CHANGELOG.md DESTINATION ${CMAKE_INSTALL_DATADIR}/doc/oubli)

set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_NAME oubli)
set(CPACK_PACKAGE_VENDOR "The Oubli authors")
set(CPACK_PACKAGE_CONTACT "The Oubli authors <oubli@localhost>")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY ${PROJECT_DESCRIPTION})
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_STRIP_FILES ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SECTION science)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
# get-runtime fetches with npm; cards are drawn in DejaVu Sans.
set(CPACK_DEBIAN_PACKAGE_RECOMMENDS "npm, fonts-dejavu-core")
set(CPACK_DEBIAN_PACKAGE_SUGGESTS
    "libeigen3-dev, libfmt-dev, nlohmann-json3-dev, libssl-dev, zlib1g-dev, libdnnl-dev")  # to link
include(CPack)
