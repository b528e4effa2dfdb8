# `cmake --install` and `find_package(oubli)`; tests/consumer is a project that uses the result.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)
install(TARGETS oubli EXPORT oubli-targets ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR}
        FILE_SET HEADERS DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
install(TARGETS oubli_program RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
# The scripts behind `oubli get-data` and `oubli get-runtime`.
install(PROGRAMS tools/get-data tools/get-runtime DESTINATION ${CMAKE_INSTALL_LIBEXECDIR}/oubli)
install(FILES tools/cifar10-from-png.cpp DESTINATION ${CMAKE_INSTALL_LIBEXECDIR}/oubli)
install(FILES ${CMAKE_BINARY_DIR}/generated/oubli/base/version.h
        DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/oubli/base)
set(config_dir ${CMAKE_INSTALL_LIBDIR}/cmake/oubli)
install(EXPORT oubli-targets NAMESPACE oubli:: DESTINATION ${config_dir})
configure_package_config_file(cmake/oubli-config.cmake.in ${CMAKE_BINARY_DIR}/oubli-config.cmake
                              INSTALL_DESTINATION ${config_dir})
write_basic_package_version_file(${CMAKE_BINARY_DIR}/oubli-config-version.cmake
                                 COMPATIBILITY SameMinorVersion)
install(FILES cmake/OubliOneDnn.cmake ${CMAKE_BINARY_DIR}/oubli-config.cmake ${CMAKE_BINARY_DIR}/oubli-config-version.cmake
        DESTINATION ${config_dir})
