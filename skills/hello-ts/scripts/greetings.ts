// The greetings, one for each language.

const GREETINGS = { de: "Hallo", en: "Hello", fr: "Bonjour" } as const;

export type Language = keyof typeof GREETINGS;

export const LANGUAGES = Object.keys(GREETINGS) as readonly Language[];

export function isLanguage(text: string): text is Language {
  return Object.hasOwn(GREETINGS, text);
}

export function greet(name: string, language: Language): string {
  return `${GREETINGS[language]}, ${name}!`;
}
