# oubli_module(SOURCES a.cpp ... PLAIN b.cpp ... HEADERS a.h ... [TESTS a_test.cpp ...]
#              [STATISTICAL_TESTS ...] [BENCHMARKS a_bench.cpp ...])
# Adds the calling folder to the library: SOURCES compute, PLAIN do not (OubliTogether.cmake). Tests
# of a folder of oubli/ and of all folders in it are one program, oubli_<folder>_test, with label
# `unit`; STATISTICAL_TESTS another, with label `statistical`; each benchmark is a program.
function(oubli_module)
  cmake_parse_arguments(PARSE_ARGV 0 module "" "" "SOURCES;PLAIN;HEADERS;TESTS;STATISTICAL_TESTS;BENCHMARKS")
  file(RELATIVE_PATH folder ${PROJECT_SOURCE_DIR}/oubli ${CMAKE_CURRENT_SOURCE_DIR})
  string(REGEX REPLACE "/.*" "" folder ${folder})
  list(TRANSFORM module_SOURCES PREPEND ${CMAKE_CURRENT_SOURCE_DIR}/)
  list(TRANSFORM module_PLAIN PREPEND ${CMAKE_CURRENT_SOURCE_DIR}/)
  list(TRANSFORM module_HEADERS PREPEND ${CMAKE_CURRENT_SOURCE_DIR}/)
  oubli_add_sources(SOURCES ${module_SOURCES} PLAIN ${module_PLAIN})
  oubli_add_headers(${module_HEADERS})
  if(OUBLI_BUILD_TESTS AND module_TESTS)
    oubli_test(oubli_${folder}_test LABEL unit SOURCES ${module_TESTS})
  endif()
  if(OUBLI_BUILD_TESTS AND module_STATISTICAL_TESTS)
    oubli_test(oubli_${folder}_statistical_test LABEL statistical SOURCES ${module_STATISTICAL_TESTS})
  endif()
  if(OUBLI_BUILD_BENCH)
    foreach(source IN LISTS module_BENCHMARKS)
      get_filename_component(name ${source} NAME_WE)
      add_executable(${name} ${source})
      target_link_libraries(${name} PRIVATE oubli oubli_flags oubli_dependencies benchmark::benchmark_main)
    endforeach()
  endif()
endfunction()

# What tells test programs where sources and build are: tests/test_paths.h.
function(oubli_add_test_paths)
  if(NOT TARGET oubli_test_paths)
    configure_file(${PROJECT_SOURCE_DIR}/cmake/test_paths.cpp.in ${CMAKE_BINARY_DIR}/generated/test_paths.cpp)
    add_library(oubli_test_paths STATIC ${CMAKE_BINARY_DIR}/generated/test_paths.cpp)
    target_include_directories(oubli_test_paths PRIVATE ${PROJECT_SOURCE_DIR})
  endif()
endfunction()

# A GoogleTest program whose cases CTest runs one by one; more SOURCES for it, if it is there already.
function(oubli_test name)
  cmake_parse_arguments(PARSE_ARGV 1 test "" "LABEL" "SOURCES")
  list(TRANSFORM test_SOURCES PREPEND ${CMAKE_CURRENT_SOURCE_DIR}/)
  if(TARGET ${name})
    target_sources(${name} PRIVATE ${test_SOURCES})
    return()
  endif()
  add_executable(${name} ${test_SOURCES})
  oubli_add_test_paths()
  target_link_libraries(${name} PRIVATE oubli oubli_flags oubli_dependencies oubli_test_paths
                        GTest::gtest_main GTest::gmock)
  oubli_precompile_test(${name})
  gtest_discover_tests(${name} DISCOVERY_MODE PRE_TEST DISCOVERY_TIMEOUT 60
                       PROPERTIES LABELS ${test_LABEL} TIMEOUT 600)
endfunction()
