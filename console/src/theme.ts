import { createTheme, type MantineColorsTuple } from '@mantine/core';

/** The one accent. Shade 7 holds white text, shade 3 stands on dark ground; both by more than 4.5 to 1. */
const tide: MantineColorsTuple = [
  '#e8f5f6',
  '#d2e8ea',
  '#a5d3d8',
  '#6fc0c9',
  '#43a5b0',
  '#2b8f9b',
  '#227c87',
  '#1b6b75',
  '#14565f',
  '#0d4248',
];

/** Greys with a trace of the accent, so that surfaces and text belong together. */
const dark: MantineColorsTuple = [
  '#d5dcdf',
  '#b4bec3',
  '#98a4aa',
  '#66737a',
  '#3b464c',
  '#2c363b',
  '#20292d',
  '#171e22',
  '#11171a',
  '#0b1012',
];

export const theme = createTheme({
  colors: { tide, dark },
  primaryColor: 'tide',
  primaryShade: { light: 7, dark: 6 },
  fontFamily: "'Inter Variable', system-ui, sans-serif",
  // Names and commands only: a font of our own for them would be 21 kB of the 300 that the console may be.
  fontFamilyMonospace:
    'ui-monospace, "Cascadia Mono", "SF Mono", Menlo, Consolas, "DejaVu Sans Mono", monospace',
  headings: { fontFamily: "'Inter Variable', system-ui, sans-serif", fontWeight: '600' },
  fontSizes: { xs: '0.75rem', sm: '0.8125rem', md: '0.875rem', lg: '1rem', xl: '1.125rem' },
  defaultRadius: 'sm',
  cursorType: 'pointer',
  respectReducedMotion: true,
  components: {
    // Neither locks scrolling: that is done by a `<style>` element, which the page's policy forbids.
    Modal: { defaultProps: { lockScroll: false, centered: true, overlayProps: { opacity: 0.45 } } },
    Button: { defaultProps: { size: 'xs' } },
    TextInput: { defaultProps: { size: 'sm' } },
    // At once, in the other scheme as well, in which half way from one to the other nothing can be read.
    SegmentedControl: { defaultProps: { transitionDuration: 0 } },
    Tooltip: {
      defaultProps: {
        withArrow: true,
        multiline: true,
        maw: 320,
      },
    },
  },
});
