# Headers that most of our files include, read once per target instead of once per file. Every file
# still includes what it uses: the dev preset compiles each header alone, and OUBLI_PRECOMPILE=OFF
# compiles everything without them.
option(OUBLI_PRECOMPILE "Precompile the standard library, fmt and nlohmann-json" ON)
if(CMAKE_CXX_CLANG_TIDY)
  set(OUBLI_PRECOMPILE OFF)  # tidy reads every file as it stands
endif()

set(OUBLI_PRECOMPILED_HEADERS
  <algorithm> <array> <cmath> <cstddef> <cstdint> <cstring> <filesystem> <functional> <limits> <map>
  <memory> <numeric> <optional> <set> <span> <stop_token> <string> <string_view> <utility> <vector>
  <fmt/format.h> <fmt/ranges.h>)
# Whoever includes it has its parser compiled, used or not.
set(OUBLI_PRECOMPILED_JSON <nlohmann/json.hpp>)
set(OUBLI_PRECOMPILED_EIGEN <Eigen/Cholesky> <Eigen/Eigenvalues> <Eigen/LU> <Eigen/QR>)

# Precompiled headers for `target`: the common ones and those named.
function(oubli_precompile target)
  if(OUBLI_PRECOMPILE)
    target_precompile_headers(${target} PRIVATE ${OUBLI_PRECOMPILED_HEADERS} ${ARGN})
  endif()
endfunction()

# For `target` the headers of `other`, which is compiled with the same options.
function(oubli_precompile_as other target)
  if(OUBLI_PRECOMPILE)
    target_precompile_headers(${target} REUSE_FROM ${other})
  endif()
endfunction()

# All test programs share one set.
function(oubli_precompile_test target)
  if(NOT OUBLI_PRECOMPILE)
    return()
  endif()
  if(NOT TARGET oubli_test_headers)
    file(WRITE ${CMAKE_BINARY_DIR}/generated/test_headers.cpp "")
    # A program, as those that share its headers are: objects are compiled with -fPIC, programs with -fPIE.
    add_executable(oubli_test_headers EXCLUDE_FROM_ALL ${CMAKE_BINARY_DIR}/generated/test_headers.cpp)
    target_link_libraries(oubli_test_headers PRIVATE oubli oubli_flags oubli_dependencies
                          GTest::gtest_main GTest::gmock)
    oubli_precompile(oubli_test_headers ${OUBLI_PRECOMPILED_JSON} <gtest/gtest.h> <gmock/gmock.h>)
  endif()
  target_precompile_headers(${target} REUSE_FROM oubli_test_headers)
endfunction()

# Files with options of their own cannot take headers that were compiled without them.
function(oubli_own_options)
  cmake_parse_arguments(PARSE_ARGV 0 own "" "" "SOURCES;OPTIONS")
  set_source_files_properties(${own_SOURCES} TARGET_DIRECTORY oubli
    PROPERTIES COMPILE_OPTIONS "${own_OPTIONS}" SKIP_PRECOMPILE_HEADERS ON)
endfunction()
